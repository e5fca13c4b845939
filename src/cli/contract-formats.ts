// What the upstream says about itself, as text, as Markdown and as JSON.

import { type DescribedField, type RecordType, saidOf } from '../openapi/description.ts'
import { type Difference, differenceInWords } from '../openapi/differences.ts'
import type { StoredDescription, UnusableDescription } from '../openapi/stored.ts'
import { plural } from '../util/text.ts'

/** What was read, and whose records it describes. */
export type Shown = {
  readonly descriptions: readonly StoredDescription[]
  readonly unusable: readonly UnusableDescription[]
  readonly types: ReadonlyMap<string, RecordType>
  /** Those that were asked for. */
  readonly streams: readonly string[]
  /** Each was named, so all of it is wanted. */
  readonly isNamed: boolean
}

/** One line, whatever the upstream wrote. */
const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}/gu, '')
    .trim()

const described = ({ streams, types }: Shown): readonly (readonly [string, RecordType])[] =>
  streams.flatMap((name) => {
    const type = types.get(name)
    return type ? [[name, type] as const] : []
  })

const moment = (time: Date): string => time.toISOString().slice(0, 16).replace('T', ' ')

function serviceLine({ service, location, description, lastReadAt }: StoredDescription): string {
  const { title, version, openApi, operations } = description
  const what = `${oneLine(title)}, version ${oneLine(version)} (OpenAPI ${openApi})`
  return `${service} service: ${what}, ${plural(operations.length, 'operation')}, read ${moment(lastReadAt)} from ${location}`
}

const unusableLine = ({ service, problem }: Shown['unusable'][number]): string =>
  `${service} service: ${oneLine(problem)}`

export function asText(shown: Shown): string {
  const width = Math.max(10, ...shown.streams.map((name) => name.length))
  const lines = described(shown).flatMap(([stream, type]) => [
    `  ${stream.padEnd(width)}  ${type.name}, ${plural(type.fields.length, 'field')}`,
    ...(shown.isNamed ? fieldLines(type.fields) : []),
  ])
  const others = shown.streams.filter((name) => !shown.types.has(name))
  return `${[
    ...shown.descriptions.map(serviceLine),
    ...shown.unusable.map(unusableLine),
    ...lines,
    ...(others.length > 0 ? [`  not described: ${others.join(', ')}`] : []),
    ...shown.descriptions.flatMap(({ description }) =>
      description.remarks.map((remark) => `! ${oneLine(remark)}`),
    ),
  ].join('\n')}\n`
}

function fieldLines(fields: readonly DescribedField[]): readonly string[] {
  const width = Math.max(...fields.map(({ name }) => name.length), 0)
  return fields.map((field) => {
    const words = field.describe === null ? '' : `  ${oneLine(field.describe)}`
    return `    ${oneLine(field.name).padEnd(width)}  ${oneLine(saidOf(field))}${words}`
  })
}

/** Escapes a cell, so that nothing in it is Markdown. */
const cell = (text: string): string => oneLine(text).replaceAll(/[\\`*{}[\]<>#+!|~&]/g, '\\$&')

const table = (rows: readonly (readonly string[])[]): readonly string[] =>
  rows.map((cells) => `| ${cells.join(' | ')} |`)

export function asMarkdown(shown: Shown): string {
  const parts = described(shown).flatMap(([stream, { name, describe, fields }]) => [
    `## ${stream}`,
    '',
    `${cell(name)}${describe === null ? '' : `: ${cell(describe)}`}`,
    '',
    ...table([
      ['field', 'what it is', 'what it means'],
      ['---', '---', '---'],
      ...fields.map((field) => [cell(field.name), cell(saidOf(field)), cell(field.describe ?? '')]),
    ]),
    '',
  ])
  const head = [...shown.descriptions.map(serviceLine), ...shown.unusable.map(unusableLine)].map(
    (line) => `- ${cell(line)}`,
  )
  return `${[...head, '', ...parts].join('\n')}\n`
}

export const asJson = (shown: Shown) => ({
  services: shown.descriptions.map(({ service, location, description, firstReadAt, lastReadAt }) => ({
    ...{
      service,
      location,
      title: description.title,
      version: description.version,
      openapi: description.openApi,
    },
    ...{ first_read_at: firstReadAt, last_read_at: lastReadAt, remarks: description.remarks },
    operations: description.operations.map(({ method, path, summary, takes, answers }) => ({
      ...{ method, path, summary, takes, answers },
    })),
  })),
  unusable: shown.unusable,
  streams: shown.streams.map((stream) => {
    const type = shown.types.get(stream)
    return { stream, type: type?.name ?? null, fields: (type?.fields ?? []).map(fieldAsJson) }
  }),
})

const fieldAsJson = ({ name, says, isNullable, isRequired, bounds, values, describe }: DescribedField) => ({
  ...{ name, says, nullable: isNullable, required: isRequired, bounds, values, description: describe },
})

const differenceText = (one: Difference): string => oneLine(differenceInWords(one))

export const differencesAsText = (differences: readonly Difference[]): string =>
  `${differences.map((one) => `${one.stream}.${oneLine(one.field)}: ${differenceText(one)}`).join('\n')}\n`

export const differencesAsMarkdown = (differences: readonly Difference[]): string =>
  `${table([
    ['stream', 'field', 'difference'],
    ['---', '---', '---'],
    ...differences.map((one) => [one.stream, cell(one.field), cell(differenceText(one))]),
  ]).join('\n')}\n`
