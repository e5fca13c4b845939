// The dictionary that holds: what the file says with what the variables of single streams and fields say. The file may change while the
// program runs; one with mistakes changes nothing.

import { relatedStreams } from '../streams/catalog.ts'
import {
  type Dictionary,
  foldField,
  nothingSaid,
  nothingSaidOfField,
  type StreamMeaning,
} from '../streams/dictionary.ts'
import { type FromVariables, parseDictionary } from './dictionary.ts'
import { type Environment, readVariable } from './environment.ts'
import { mirrorVariables } from './mirror-variables.ts'
import { openReader, type Reader } from './reader.ts'
import { upstreamVariables } from './upstream-variables.ts'
import { FileError, readYamlFile, stampOf } from './yaml-file.ts'

export type DictionaryInUse = ReturnType<typeof openDictionary>

/** Complains of the mistakes of the file. How long histories are kept may change in the environment, too. */
export function openDictionary(environment: () => Environment, reader: Reader) {
  const { catalogue, values, complain } = reader
  const { dictionaryFile: file } = values({ DICTIONARY: mirrorVariables.DICTIONARY })
  const read = (from = openReader(environment())) =>
    parseDictionary(
      file ?? '',
      file === null ? Buffer.from('') : readYamlFile(file),
      fromVariables(environment(), from),
      catalogue,
    )
  const stampNow = () => {
    const { HISTORY, TRACKER_HISTORY } = environment()
    return JSON.stringify([stampOf(file), HISTORY, TRACKER_HISTORY])
  }
  let seen = stampNow()
  let held: Dictionary = new Map()
  let problem: string | null = null
  try {
    held = read(reader)
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    for (const line of error.message.split('\n')) complain(line)
  }
  return {
    file,
    now: () => held,
    /** Reads the file again if it, or the environment, changed since it was last looked at; null: they did not. A problem: it has mistakes, and what held before holds. */
    look() {
      const stamp = stampNow()
      if (stamp === seen) return null
      seen = stamp
      try {
        held = read()
        problem = null
      } catch (error) {
        if (!(error instanceof FileError)) throw error
        problem = error.message
      }
      return { problem }
    },
    /** What the last look found. */
    problem: () => problem,
  }
}

/** What is said of single streams and fields without a file. */
function fromVariables(environment: Environment, { catalogue, perStream, values }: Reader): FromVariables {
  const [{ FIELD_TIMEZONES }, { HISTORY, TRACKER_HISTORY }] = [mirrorVariables, upstreamVariables]
  const { fieldTimezones, ...kept } = values({ FIELD_TIMEZONES, HISTORY, TRACKER_HISTORY })
  const trackerMs = kept.trackerHistoryMs ?? 0
  const isTrackerChosen = readVariable(environment, 'TRACKER_HISTORY', []) !== undefined
  const { all, ...named }: Readonly<Record<string, number>> = {
    ...(isTrackerChosen && { tracker_object: trackerMs }),
    ...kept.histories,
  }
  const [keys, versions, volatile] = [perStream('KEY'), perStream('VERSION'), perStream('VOLATILE')]
  const names = [keys, versions, volatile, fieldTimezones ?? {}, named].flatMap((one) => Object.keys(one))
  const chosen = [...new Set(names)].map((name): [string, StreamMeaning] => [
    name,
    {
      ...nothingSaid,
      key: keys[name] ?? null,
      version: versions[name] ?? null,
      volatile: volatile[name] ?? null,
      historyMs: named[name] ?? null,
      fields: new Map(
        Object.entries(fieldTimezones?.[name] ?? {}).map(([field, timezone]) => [
          foldField(field),
          { ...nothingSaidOfField, name: field, timezone },
        ]),
      ),
    },
  ])
  // Vehicles move all the time: how long their history is kept is a setting of its own. Files do not change, and are large.
  const others = [
    ...catalogue.filter(({ name }) => name !== 'tracker_object'),
    ...relatedStreams.filter(({ bulkField }) => !bulkField),
  ]
  const unnamed = all === undefined ? [] : others
  return {
    chosen: new Map(chosen),
    usualHistories: new Map([
      ...unnamed.map(({ name }) => [name, all ?? 0] as const),
      ['tracker_object', trackerMs] as const,
    ]),
  }
}
