// The file that says what the data means: YAML in, a `Dictionary` out. The tables of what can be said are also the JSON Schema for editors.

import { type Catalogue, relatedStreams } from '../streams/catalog.ts'
import type { Dictionary } from '../streams/dictionary.ts'
import { type FromVariables, meaningIn } from './dictionary-rules.ts'
import { fieldSettings, fileSettings, streamSettings } from './dictionary-settings.ts'
import { notKnown, parseYamlFile, readYamlFile } from './yaml-file.ts'

/** Null: there is no file, and what the variables say is all. */
export const readDictionary = (
  file: string | null,
  variables: FromVariables,
  catalogue: Catalogue,
): Dictionary =>
  parseDictionary(file ?? '', file === null ? Buffer.from('') : readYamlFile(file), variables, catalogue)

export function parseDictionary(
  file: string,
  bytes: Uint8Array,
  variables: FromVariables,
  catalogue: Catalogue,
): Dictionary {
  const knownAt = (path: readonly unknown[]) =>
    Object.keys((path.length === 1 ? streamSettings : fieldSettings).shape)
  const { value, names, complain, lineAt, finish } = parseYamlFile(file, bytes, {
    schema: fileSettings,
    knownAt,
  })
  const streams = [...catalogue, ...relatedStreams]
  const known = [...new Set(streams.map(({ name }) => name))]
  for (const name of names)
    if (!known.includes(name)) complain([name], `is ${notKnown('stream', name, known)}`)
  const dictionary = meaningIn(value ?? {}, variables, { streams, complain, lineAt })
  finish()
  return dictionary
}
