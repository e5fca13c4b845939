// The configuration of a source that has a name. It is read like any other, from variables that name streams as they are called within
// the source; from here on they have their keys.

import type { Dictionary } from '../streams/dictionary.ts'
import { keyIn } from '../streams/names.ts'
import type { DictionaryInUse } from './dictionary-in-use.ts'
import type { DynamicValues } from './dynamic-settings.ts'
import { type Environment, sourceVariable } from './environment.ts'
import type { Config } from './load.ts'
import { byName } from './parsers.ts'

export const environmentOf = (source: string, variables: Environment): Environment => ({
  ...variables,
  [sourceVariable]: source,
})

/** With the keys of streams for their names. */
export function ofSource<Some extends Partial<Config>>(
  config: Some,
  source: string,
): Some & { readonly source: string } {
  const key = (name: string) => keyIn(source, name)
  const { added, streams, related, dynamic, dictionary } = config
  if (source === '') return { ...config, source }
  return {
    ...config,
    source,
    ...(added && { added: added.map((one) => ({ ...one, name: key(one.name) })) }),
    ...(streams && { streams: streams.map(key) }),
    ...(related && { related: related.map(key) }),
    ...(dynamic && { dynamic: { ...dynamic, now: lastOf(dynamic.now, (now) => dynamicOf(now, key)) } }),
    ...(dictionary && { dictionary: dictionaryOf(dictionary, key) }),
  }
}

const dictionaryOf = (dictionary: DictionaryInUse, key: (name: string) => string): DictionaryInUse => ({
  ...dictionary,
  now: lastOf(dictionary.now, (now) => keyed(now, key)),
})

/** The same one as long as what it is made from is: others compare. */
function lastOf<From, Made>(read: () => From, make: (from: From) => Made): () => Made {
  let known: { readonly from: From; readonly made: Made } | null = null
  return () => {
    const from = read()
    if (known === null || known.from !== from) known = { from, made: make(from) }
    return known.made
  }
}

function dynamicOf({ ofStreams, ...values }: DynamicValues, key: (name: string) => string): DynamicValues {
  const families = Object.entries(ofStreams).map(([family, said]) => [
    family,
    byName(Object.entries(said).map(([name, value]) => [key(name), value])),
  ])
  return { ...values, ofStreams: Object.fromEntries(families) }
}

const keyed = (dictionary: Dictionary, key: (name: string) => string): Dictionary =>
  new Map(
    [...dictionary].map(([name, { fields, ...meaning }]) => [
      key(name),
      {
        ...meaning,
        fields: new Map(
          [...fields].map(([field, { refersTo, ...said }]) => [
            field,
            { ...said, refersTo: refersTo === null ? null : key(refersTo) },
          ]),
        ),
      },
    ]),
  )
