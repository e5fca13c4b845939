// The file that says what the data means: YAML in, a `Dictionary` out. The tables of what can be said are also the JSON Schema for
// editors. Every mistake is one line with the file, the line and the nearest name that is known; a file with mistakes says nothing.

import { readFileSync, statSync } from 'node:fs'
import { type Document, isMap, isPair, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import type { z } from 'zod'
import { expectBounded } from '../json/bounds.ts'
import { type Catalogue, relatedStreams } from '../streams/catalog.ts'
import type { Dictionary } from '../streams/dictionary.ts'
import { type Complain, type FromVariables, meaningIn, notKnown } from './dictionary-rules.ts'
import { fieldSettings, fileSettings, streamSettings } from './dictionary-settings.ts'

/** The file cannot be used. Each line of the message is one mistake. */
export class DictionaryError extends Error {
  override readonly name = 'DictionaryError'
}

const mostBytes = 512 * 1024

/** Null: there is no file, and what the variables say is all. */
export function readDictionary(
  file: string | null,
  variables: FromVariables,
  catalogue: Catalogue,
): Dictionary {
  if (file === null) return parseDictionary('', Buffer.from(''), variables, catalogue)
  try {
    if (statSync(file).size > mostBytes)
      throw new DictionaryError(`${file} is larger than ${mostBytes / 1024} KB`)
    return parseDictionary(file, readFileSync(file), variables, catalogue)
  } catch (cause) {
    if (cause instanceof DictionaryError) throw cause
    throw new DictionaryError(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

export function parseDictionary(
  file: string,
  bytes: Uint8Array,
  variables: FromVariables,
  catalogue: Catalogue,
): Dictionary {
  const lines = new LineCounter()
  const document = readYaml(file, bytes, lines)
  const problems: string[] = []
  const complain: Complain = (path, problem) => {
    const line = lineOf(document, lines, path)
    problems.push(oneLine(`${file}:${line}: ${path.join('.')} ${problem}`))
  }
  for (const path of namedTwice(document)) complain(path, 'is there twice: remove one of them')
  const read = fileSettings.safeParse(plainValue(file, document))
  for (const issue of read.error?.issues ?? []) complainOf(issue, complain)
  const streams = [...catalogue, ...relatedStreams]
  const known = [...new Set(streams.map(({ name }) => name))]
  for (const { key } of isMap(document.contents) ? document.contents.items : [])
    if (!known.includes(textOf(key))) complain([textOf(key)], `is ${notKnown('stream', textOf(key), known)}`)
  const lineAt = (path: readonly string[]) => lineOf(document, lines, path)
  const dictionary = meaningIn(read.data ?? {}, variables, { streams, complain, lineAt })
  if (problems.length > 0) throw new DictionaryError(problems.join('\n'))
  return dictionary
}

/** Everything that is written is text, as it stands there: 01 stays 01, and no is a word like any other. */
function readYaml(file: string, bytes: Uint8Array, lineCounter: LineCounter): Document {
  try {
    expectBounded(bytes)
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    const document = parseDocument(text, {
      ...{ schema: 'failsafe', lineCounter, prettyErrors: false, logLevel: 'silent' },
      // The parser would compare each key with all others.
      uniqueKeys: false,
    })
    const [error] = document.errors
    if (!error) return document
    const { line } = lineCounter.linePos(error.pos[0])
    throw new DictionaryError(`${file}:${line}: is no YAML: ${error.message}`)
  } catch (cause) {
    if (cause instanceof DictionaryError) throw cause
    const why = cause instanceof TypeError ? 'is not UTF-8' : 'is nested too deeply, or holds too much'
    throw new DictionaryError(`${file}: ${why}`, { cause })
  }
}

/** A file with nothing but comments says nothing. */
function plainValue(file: string, document: Document): unknown {
  try {
    // Aliases that repeat each other are refused.
    return document.contents === null ? {} : document.toJS({ maxAliasCount: 100 })
  } catch (cause) {
    throw new DictionaryError(`${file}: repeats itself too often through aliases`, { cause })
  }
}

const oneLine = (text: string): string => text.replaceAll(/\s+/g, ' ')

function namedTwice(document: Document): readonly (readonly string[])[] {
  const found: string[][] = []
  visit(document, {
    Map(_, { items }, parents) {
      const names = new Set<string>()
      for (const { key } of items) {
        const path = parents.flatMap((parent) => (isPair(parent) ? [textOf(parent.key)] : []))
        if (names.has(textOf(key))) found.push([...path, textOf(key)])
        names.add(textOf(key))
      }
    },
  })
  return found
}

const textOf = (key: unknown): string => (isScalar(key) ? String(key.value) : String(key))

/** Where the last name of a path stands, or the nearest one above it. Of a name that is there twice, the second. */
function lineOf(document: Document, lines: LineCounter, path: readonly string[]): number {
  let node: unknown = document.contents
  let offset = 0
  for (const name of path) {
    const pair = isMap(node) ? node.items.findLast(({ key }) => textOf(key) === name) : undefined
    if (!pair) break
    offset = isScalar(pair.key) ? (pair.key.range?.[0] ?? offset) : offset
    node = pair.value
  }
  return lines.linePos(offset).line
}

function complainOf(issue: z.core.$ZodIssue, complain: Complain): void {
  const path = issue.path.map(String)
  const known = Object.keys((path.length === 1 ? streamSettings : fieldSettings).shape)
  if (issue.code !== 'unrecognized_keys') complain(path, issue.message)
  else for (const key of issue.keys) complain([...path, key], `is ${notKnown('setting', key, known)}`)
}
