// Which streams and sources a rule of alerts is about: it names them, or tags in the file of sources.

import { environmentSource, keyIn, sourceIn } from '../streams/names.ts'
import type { KnownSource } from './sources-yaml.ts'

type Sources = ReadonlyMap<string, KnownSource>
type Names = readonly string[] | undefined
type Placed = {
  /** Null: all. */
  readonly streams: readonly string[] | null
  readonly sources: readonly string[] | null
  /** What it names, and what there is. */
  readonly words: readonly (readonly [
    setting: string,
    words: readonly string[],
    allowed: readonly string[],
    what: string,
  ])[]
}

/** With sources, a name without one is that of a stream in each of them. */
export const placeIn =
  (sources: Names | null) =>
  (name: string): readonly string[] =>
    !sources || sourceIn(name) !== ''
      ? [name]
      : sources.map((source) => keyIn(source === environmentSource ? '' : source, name))

/** Which streams and sources a rule is about. `known` is null: the file of sources cannot be read, and then rather too much is told. */
export function placedIn(
  { streams, sources, tags }: { readonly streams?: Names; readonly sources?: Names; readonly tags?: Names },
  streamsOfFirst: readonly string[],
  known: Sources | null,
): Placed {
  if (known === null)
    return {
      streams: sources || tags ? null : (streams ?? null),
      sources: tags ? null : (sources ?? null),
      words: [],
    }
  const streamsOf = (source: string) =>
    source === environmentSource ? streamsOfFirst : (known.get(source)?.streams ?? [])
  const names = [environmentSource, ...known.keys()]
  const tagged = [...known].flatMap(([name, one]) =>
    one.tags.some((tag) => tags?.includes(tag)) ? name : [],
  )
  const meant = sources || tags ? [...new Set([...(sources ?? []), ...tagged])] : null
  const keys = (source: string) =>
    streamsOf(source).map((name) => keyIn(source === environmentSource ? '' : source, name))
  const all = names.flatMap(keys)
  const inEach = meant === null ? [] : [...new Set(meant.flatMap(streamsOf))]
  return {
    streams: streams?.flatMap(placeIn(meant)) ?? null,
    sources: meant,
    words: [
      ['streams', streams ?? [], meant === null ? all : [...inEach, ...meant.flatMap(keys)], 'stream'],
      ['sources', sources ?? [], names, 'source'],
      ['tags', tags ?? [], [...known.values()].flatMap((one) => one.tags), 'tag'],
    ],
  }
}
