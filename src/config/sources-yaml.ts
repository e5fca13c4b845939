// The file of sources as it is written: the variables of each source by their names, and its tags. What they mean is judged elsewhere. The
// tables here are also the JSON Schema for editors.

import { z } from 'zod'
import { catalogueOf } from '../streams/catalog.ts'
import { readAddedStreams } from './stream-variables.ts'
import { FileError, notKnown, parseYamlFile, readYamlFile, type YamlFile } from './yaml-file.ts'

/** The variables of a source by their names; a secret says only where it is. */
export type SourceSettings = Readonly<Record<string, string>>
export type NamedSource = { readonly settings: SourceSettings; readonly tags: readonly string[] }

const settingValue = z.union(
  [z.string(), z.array(z.string()).transform((many) => many.join(','))],
  'must be a text, or a list of texts',
)
const tag = z.string().regex(/^[a-z][\w-]{0,39}$/, 'must be names in lower case, such as [production]')
const tags = z.array(tag, 'must be a list such as [production]')
const oneSource = z
  .object(
    {
      from: z.string().optional().describe('the source whose settings hold where this one says nothing'),
      tags: tags.optional().describe('groups that it belongs to'),
    },
    'must be a list of settings',
  )
  .catchall(settingValue)

export const fileSettings = z.strictObject(
  {
    generation: z
      .string()
      .regex(/^\d{1,15}$/, 'must be a whole number')
      .transform(Number)
      .optional()
      .meta({ type: 'integer' })
      .describe('rises with each change: a file with a lower number is refused'),
    defaults: z
      .record(z.string(), settingValue, 'must be a list of settings')
      .default({})
      .describe('what holds where a source says nothing'),
    sources: z
      // An editor may have emptied the file to write it anew: that does not mean that all sources are gone.
      .record(z.string(), oneSource, 'must be a list of sources, each with its settings, or {}')
      .describe('the sources by their names'),
    unions: z
      .record(
        z.string(),
        z.strictObject(
          {
            tags: tags.optional().describe('sources with one of these tags'),
            sources: z.array(z.string(), 'must be a list of sources').optional().describe('these sources'),
          },
          'must have tags, sources or both',
        ),
        'must be a list of groups, such as {production: {tags: [production]}}',
      )
      .default({})
      .describe('groups of sources, each with views over them: fleet_<group>.<stream>'),
  },
  'must have sources',
)
export type Given = z.output<typeof fileSettings>
export type File = YamlFile<Given> & { readonly value: Given }

/** Without mistakes in its form. */
export function parseSourcesYaml(file: string, bytes: Uint8Array): File {
  const outermost = Object.keys(fileSettings.shape)
  const parsed = parseYamlFile(file, bytes, {
    schema: fileSettings,
    knownAt: (path) => (path.length === 0 ? outermost : ['tags', 'sources']),
  })
  parsed.finish()
  return parsed as File
}

/** Its own settings over those of the source that `from` names, and so on. */
export function withFrom(
  parsed: File,
  sources: Given['sources'],
  name: string,
): { readonly settings: Readonly<Record<string, unknown>>; readonly tags: readonly string[] } {
  const chain: string[] = []
  let settings: Record<string, unknown> = {}
  for (let at: string | undefined = name; at !== undefined; ) {
    const one: Given['sources'][string] | undefined = Object.hasOwn(sources, at) ? sources[at] : undefined
    if (!one || chain.includes(at)) {
      const known = Object.keys(sources).filter((other) => other !== name)
      const problem = one ? 'leads back to itself' : `is ${notKnown('source', at, known)}`
      parsed.complain(['sources', chain.at(-1) ?? name, 'from'], problem)
      break
    }
    chain.push(at)
    const { tags: _, ...own } = one
    settings = { ...own, ...settings }
    at = one.from
  }
  const { from: _, ...all } = settings
  return { settings: all, tags: sources[name]?.tags ?? [] }
}

export const asVariables = (settings: Readonly<Record<string, unknown>>): SourceSettings =>
  Object.fromEntries(Object.entries(settings).map(([key, value]) => [key.toUpperCase(), String(value)]))

/** What a source is called by elsewhere. */
export type KnownSource = { readonly tags: readonly string[]; readonly streams: readonly string[] }

/** By their names; null: the file cannot be read. */
export function readKnownSources(file: string): ReadonlyMap<string, KnownSource> | null {
  try {
    const parsed = parseSourcesYaml(file, readYamlFile(file))
    const { defaults, sources } = parsed.value
    return new Map(
      Object.keys(sources).map((name) => {
        const { settings, tags } = withFrom(parsed, sources, name)
        const said = asVariables({ ...defaults, ...settings })
        return [name, { tags, streams: catalogueOf(readAddedStreams(said)).map((one) => one.name) }]
      }),
    )
  } catch (error) {
    if (error instanceof FileError) return null
    throw error
  }
}
