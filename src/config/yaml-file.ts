// A file of settings in YAML: read within bounds, checked by a schema, and each mistake told in one line with the file, the line and the
// nearest name that is known. A file with mistakes says nothing.

import { readFileSync, statSync } from 'node:fs'
import { type Document, isMap, isPair, isScalar, isSeq, LineCounter, parseDocument, visit } from 'yaml'
import type { z } from 'zod'
import { expectBounded } from '../json/bounds.ts'
import { messageOf } from '../util/errors.ts'
import { nearest } from '../util/text.ts'

/** The file cannot be used. Each line of the message is one mistake. */
export class FileError extends Error {
  override readonly name = 'FileError'
}

/** Names, and places in lists from 0 on. */
type Path = readonly (string | number)[]
export type YamlFile<Value> = {
  /** Undefined: it has mistakes, which `finish` throws. */
  readonly value: Value | undefined
  /** Of its outermost settings, as they are written, also when it has mistakes. */
  readonly names: readonly string[]
  lineAt(path: Path): number
  /** Notes a mistake of what stands at a path. */
  complain(path: Path, problem: string): void
  finish(): void
}

const mostBytes = 512 * 1024

export function readYamlFile(file: string): Uint8Array {
  try {
    if (statSync(file).size > mostBytes) throw new FileError(`${file} is larger than ${mostBytes / 1024} KB`)
    return readFileSync(file)
  } catch (cause) {
    if (cause instanceof FileError) throw cause
    throw new FileError(`${file} cannot be read (${(cause as NodeJS.ErrnoException).code})`, { cause })
  }
}

/** Another one as soon as the file is another; null: there is none. */
export function stampOf(file: string | null): string {
  try {
    if (file === null) return ''
    const { mtimeMs, size, ino } = statSync(file)
    return `${mtimeMs} ${size} ${ino}`
  } catch (error) {
    return messageOf(error)
  }
}

/** `knownAt`: the names that may stand below a path, for one that may not. */
export function parseYamlFile<Schema extends z.ZodType>(
  file: string,
  bytes: Uint8Array,
  { schema, knownAt }: { readonly schema: Schema; readonly knownAt: (path: Path) => readonly string[] },
): YamlFile<z.output<Schema>> {
  const lines = new LineCounter()
  const document = readYaml(file, bytes, lines)
  const problems: string[] = []
  const lineAt = (path: Path) => lineOf(document, lines, path)
  const complain = (path: Path, problem: string) => {
    problems.push(`${file}:${lineAt(path)}: ${placeOf(path)}${problem}`.replaceAll(/\s+/g, ' '))
  }
  for (const path of namedTwice(document)) complain(path, 'is there twice: remove one of them')
  const { data, error } = schema.safeParse(plainValue(file, document))
  for (const issue of error?.issues ?? []) {
    const path = issue.path.map((one) => (typeof one === 'number' ? one : String(one)))
    if (issue.code !== 'unrecognized_keys') complain(path, issue.message)
    else
      for (const key of issue.keys) complain([...path, key], `is ${notKnown('setting', key, knownAt(path))}`)
  }
  return {
    value: data,
    names: isMap(document.contents) ? document.contents.items.map(({ key }) => textOf(key)) : [],
    lineAt,
    complain,
    finish() {
      if (problems.length > 0) throw new FileError(problems.join('\n'))
    },
  }
}

/** `rules[1].to `, as people count. */
const placeOf = (path: Path): string =>
  path.length === 0
    ? ''
    : `${path
        .map((one) => (typeof one === 'number' ? `[${one + 1}]` : `.${one}`))
        .join('')
        .slice(1)} `

export function notKnown(what: string, name: string, known: readonly string[]): string {
  const [near] = nearest(name, known)
  const others = known.length === 0 ? '; there is none' : `; known are ${known.join(', ')}`
  return `no ${what}${near === undefined ? others : `: did you mean ${near}?`}`
}

/** Everything that is written is text, as it stands there: 01 stays 01, and no is a word like any other. */
function readYaml(file: string, bytes: Uint8Array, lineCounter: LineCounter): Document {
  try {
    expectBounded(bytes)
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
    const document = parseDocument(text, {
      schema: 'failsafe',
      lineCounter,
      prettyErrors: false,
      logLevel: 'silent',
      // The parser would compare each key with all others.
      uniqueKeys: false,
    })
    const [error] = document.errors
    if (!error) return document
    const { line } = lineCounter.linePos(error.pos[0])
    throw new FileError(`${file}:${line}: is no YAML: ${error.message}`)
  } catch (cause) {
    if (cause instanceof FileError) throw cause
    const why = cause instanceof TypeError ? 'is not UTF-8' : 'is nested too deeply, or holds too much'
    throw new FileError(`${file}: ${why}`, { cause })
  }
}

/** A file with nothing but comments says nothing. */
function plainValue(file: string, document: Document): unknown {
  try {
    // Aliases that repeat each other are refused.
    return document.contents === null ? {} : document.toJS({ maxAliasCount: 100 })
  } catch (cause) {
    throw new FileError(`${file}: repeats itself too often through aliases`, { cause })
  }
}

function namedTwice(document: Document): readonly Path[] {
  const found: Path[] = []
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
function lineOf(document: Document, lines: LineCounter, path: Path): number {
  let node: unknown = document.contents
  let offset = 0
  for (const name of path) {
    const pair = isMap(node) ? node.items.findLast(({ key }) => textOf(key) === String(name)) : undefined
    const item = isSeq(node) ? node.items[Number(name)] : undefined
    const named = pair?.key ?? item
    if (named === undefined) break
    offset = (isScalar(named) || isMap(named) || isSeq(named) ? named.range?.[0] : undefined) ?? offset
    node = pair ? pair.value : item
  }
  return lines.linePos(offset).line
}
