// `tidemark schema --format dictionary` and `--check`: a file to start from, with the values that occur, and what does not fit in the file.

import { loadDescriptionConfig } from '../config/load.ts'
import type { Pool } from '../context.ts'
import type { ColumnMap, ViewMap } from '../store/book/dictionary.ts'
import { findUnfit, type Occurring, readCodes } from '../store/book/meanings.ts'
import { UsageError } from '../util/errors.ts'
import { capitalized, count, plural } from '../util/text.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { readMirror } from './mirror.ts'

/** Exit 1 when something does not fit what is there; a file with mistakes is one of the settings that cannot be used. */
export async function checkDictionary(call: Call): Promise<ExitCode> {
  const { dictionary } = loadDescriptionConfig(call.environment)
  const { file } = dictionary
  if (file === null) throw new UsageError('There is no dictionary to check: set DICTIONARY to its file.')
  let found = 0
  const code = await readMirror(call, async (pool) => {
    const findings = await findUnfit(pool, dictionary.now())
    found = findings.length
    if (call.values.json) return call.stdout.json({ file, findings })
    for (const { stream, line, what } of findings)
      call.stdout.say(`${line === null ? '' : `${file}:${line}: `}${stream}: ${what}`)
    call.stdout.say(
      found === 0
        ? `${file} has no mistakes, and fits what is there.`
        : `${file} can be used. Compared with what is there: ${plural(found, 'finding')}.`,
    )
  })
  return code === exitCodes.done && found > 0 ? exitCodes.failed : code
}

/** Valid as it stands: names are made of those of the fields, and codes without a text are comments. */
export async function asDictionary(pool: Pool, views: readonly ViewMap[]): Promise<string> {
  const parts: string[] = [
    '# What the data means. Mend the names, give codes their texts, and set DICTIONARY to this file.',
  ]
  for (const { name, stream, columns } of views) {
    if (name !== stream) continue
    parts.push(`${name}:`, `  label: ${inWords(name)}`, '  fields:')
    for (const column of columns)
      if (column.field !== null && !column.isText) parts.push(...(await fieldLines(pool, name, column)))
  }
  return `${parts.join('\n')}\n`
}

async function fieldLines(pool: Pool, view: string, column: ColumnMap): Promise<readonly string[]> {
  const { field, label, unit, texts } = column
  const codes =
    ['bigint', 'text'].includes(column.type) && !column.isKey
      ? await readCodes(pool, view, column.name)
      : null
  const isFew = codes !== null && codes.length > 1 && codes.some(({ rows }) => rows > 1)
  return [
    `    ${scalar(field ?? '')}:`,
    `      label: ${scalar(label ?? inWords(column.name))}`,
    ...(unit ? [`      unit: ${scalar(unit)}`] : []),
    ...(isFew || texts ? valueLines(codes ?? [], texts ?? {}) : []),
  ]
}

function valueLines(
  occurring: readonly Occurring[],
  texts: Readonly<Record<string, string>>,
): readonly string[] {
  const rowsOf = new Map(occurring.map(({ code, rows }) => [code, rows]))
  const codes = [...new Set([...Object.keys(texts), ...rowsOf.keys()])].toSorted(
    (one, other) => Number(one) - Number(other) || (one < other ? -1 : 1),
  )
  const mark = Object.keys(texts).length === 0 ? '# ' : ''
  return [
    `      ${mark}values:`,
    ...codes.map((code) => {
      const rows = ` # ${count(rowsOf.get(code) ?? 0)} rows`
      return code in texts
        ? `        ${scalar(code)}: ${scalar(texts[code] ?? '')}${rows}`
        : `      #   ${scalar(code)}:${rows}`
    }),
  ]
}

/** `assignment_status_id` is `Assignment status`. */
const inWords = (name: string): string => capitalized(name.replace(/(?<=.)_id$/, '').replaceAll('_', ' '))

const scalar = (text: string): string =>
  /^[\p{L}\p{N}][\p{L}\p{N} _.,()/-]*(?<! )$/u.test(text) ? text : JSON.stringify(text)
