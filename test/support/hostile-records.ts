// Lists of records as bytes, from ordinary to hostile, and tables that take them more or less: everything follows from a seed.

import { foldName } from '../../src/store/schema/column-names.ts'
import type { TableSchema } from '../../src/store/schema/table-schema.ts'
import type { ColumnType } from '../../src/store/types/table.ts'
import type { Random } from './random.ts'
import { streamOf } from './streams.ts'

const fieldTypes: Readonly<Record<string, ColumnType>> = {
  AssignmentId: 'bigint',
  SysRowVersion: 'bigint',
  Name: 'text',
  Note: 'text',
  Amount: 'numeric',
  Latitude: 'numeric',
  Count: 'bigint',
  IsOpen: 'boolean',
  UID: 'uuid',
  RegTime: 'timestamptz',
  CreatedUTC: 'timestamptz',
  Place: 'jsonb',
  SysDeleted: 'boolean',
  'Größe 🔧': 'text',
}
const otherNames = [
  'name',
  'NAME',
  'sysdeleted',
  'rowversion',
  '__proto__',
  'toJSON',
  '7',
  '07',
  '',
  'Né',
  'a"b',
  'Extra',
  'Nothing',
]
/** Fields that have no column, and are mostly null. */
const unplaced = ['Nothing']

export type HostileTable = { readonly tableSchema: TableSchema; readonly settled: ReadonlySet<string> }

/** A table for some of the fields, in any order; some columns may not be widened. */
export function hostileTable(random: Random): HostileTable {
  const optional = Object.keys(fieldTypes).slice(2)
  const share = random.pick([1, 1, 1, 0.7])
  const chosen = random.shuffled(optional).filter(() => random.chance(share))
  const fields = random.shuffled(['AssignmentId', 'SysRowVersion', ...chosen])
  const columns = fields.map((field) => ({ field, name: foldName(field), type: fieldTypes[field] ?? 'text' }))
  const find = (field: string) => columns.find((column) => column.field === field)
  const [key, version] = [find('AssignmentId'), find('SysRowVersion')]
  if (!key || !version) throw new Error('unreachable')
  return {
    tableSchema: {
      stream: { ...streamOf('assignment'), versionFields: ['SysRowVersion'] },
      version: 1,
      key,
      versions: [version],
      columns,
      emptied: [],
      unplaced: new Set(unplaced.map(foldName)),
      volatile: new Set(random.chance(0.3) ? random.shuffled(optional).slice(0, 3).map(foldName) : []),
      takenNames: new Set(columns.map(({ name }) => name)),
      history: null,
    },
    settled: new Set(random.chance(0.3) ? ['count'] : []),
  }
}

export type Hostility = {
  /** How often a value, a name or an order is not what it mostly is. */
  readonly oddity: number
  /** How often the finished bytes are damaged. */
  readonly damage: number
}

/** As bytes; mostly a list of objects. */
export function hostileList(random: Random, { oddity, damage }: Hostility): Buffer {
  const isCompact = random.chance(0.7)
  const space = () => (isCompact ? '' : random.pick(['', '', ' ', '\n', '\t ', '\r\n']))
  const odd = () => random.chance(oddity)
  const order = random.shuffled(Object.keys(fieldTypes)).filter(() => random.chance(0.9))
  const records = Array.from({ length: random.integer(12) }, (_, index) =>
    odd() && random.chance(0.1) ? anyValue(random, 2) : recordText(random, { order, index, odd, space }),
  )
  const list = `${space()}[${space()}${records.join(`${space()},${space()}`)}${space()}]${space()}`
  const body = odd() && random.chance(0.05) ? `{"items":${list}}` : list
  const bytes = Buffer.from(body)
  return random.chance(damage) ? damaged(random, bytes) : bytes
}

type Writing = {
  readonly order: readonly string[]
  readonly index: number
  readonly odd: () => boolean
  readonly space: () => string
}

function recordText(random: Random, { order, index, odd, space }: Writing): string {
  const names = odd() ? random.shuffled(order) : [...order]
  if (odd()) names.splice(random.integer(names.length + 1), 0, random.pick(otherNames))
  if (odd())
    names.splice(random.integer(names.length + 1), 0, random.pick(names.length > 0 ? names : ['Name']))
  if (odd()) names.splice(random.integer(names.length + 1), random.integer(4))
  const fields = names.map((name) => {
    const value = odd() ? anyValue(random, 3) : usualValue(random, name, index)
    return `${nameText(random, name, odd)}${space()}:${space()}${value}`
  })
  return `{${space()}${fields.join(`${space()},${space()}`)}${space()}}`
}

function nameText(random: Random, name: string, odd: () => boolean): string {
  const text = JSON.stringify(name)
  if (!odd() || !random.chance(0.2) || name === '') return text
  return `"\\u${(name.charCodeAt(0) || 0).toString(16).padStart(4, '0')}${JSON.stringify(name.slice(1)).slice(1)}`
}

function usualValue(random: Random, name: string, index: number): string {
  if (name === 'AssignmentId') return String(index + 1)
  if (name === 'SysRowVersion') return String(1_000 + index * 3)
  if (random.chance(0.15)) return 'null'
  if (name === 'SysDeleted') return random.pick(['true', 'false', 'false', 'false'])
  switch (fieldTypes[name]) {
    case 'bigint':
      return integerText(random)
    case 'numeric':
      return random.pick([
        `${random.integer(9_999)}.${digits(random, 1 + random.integer(16))}`,
        integerText(random),
        '0.0000',
        '-0.50',
      ])
    case 'boolean':
      return random.pick(['true', 'false'])
    case 'uuid':
      return `"${uuidText(random)}"`
    case 'timestamptz':
      return `"${instantText(random)}"`
    case 'jsonb':
      return random.chance(0.4) ? 'null' : nestedText(random, 3)
    default:
      return stringText(random)
  }
}

const membersOf = ['a', 'b', 'ab', 'A', 'a b', '7', '10', '', '!', '#', '~', 'n1', 'n2', 'n3']
const oddMembers = ['é', '\\u0061', 'a\\"b', '__proto__', '👍', 'ﬀ']

/** An object or a list, with spaces here and there. A field may come twice where `inside` makes the values. */
function nestedText(random: Random, depth: number, inside?: () => string): string {
  const space = random.chance(0.8) ? '' : random.pick([' ', '\n  '])
  const value =
    inside ??
    (() => {
      if (depth > 1 && random.chance(0.3)) return nestedText(random, depth - 1)
      const number = () => `${random.integer(999)}.${digits(random, 1 + random.integer(3))}`
      return random.pick([number, () => integerText(random), () => stringText(random, false), () => 'null'])()
    })
  const count = random.integer(5)
  const joined = (texts: readonly string[]) => texts.join(`${space},${space}`)
  if (random.chance(0.3)) return `[${space}${joined(Array.from({ length: count }, value))}${space}]`
  const all = [...membersOf, ...(inside || random.chance(0.1) ? oddMembers : [])]
  const names = inside
    ? Array.from({ length: count }, () => random.pick(random.chance(0.5) ? ['a', 'b'] : all))
    : random.shuffled(all).slice(0, count)
  return `{${space}${joined(names.map((name) => `"${name}"${space}:${space}${value()}`))}${space}}`
}

const digits = (random: Random, count: number): string =>
  Array.from({ length: count }, () => random.integer(10)).join('')

const integerText = (random: Random): string =>
  random.chance(0.9) ? String(random.integer(100_000_000_000)) : hugeIntegerText(random)

const hugeIntegerText = (random: Random): string =>
  random.pick([
    String(random.integer(100)),
    String(1 + random.integer(9)) + digits(random, random.integer(22)),
    `-${1 + random.integer(9)}${digits(random, random.integer(19))}`,
    ...['9223372036854775807', '-9223372036854775808', '9223372036854775808', '-0', '0', '9007199254740993'],
  ])

const uuidText = (random: Random): string => {
  const hex = Array.from({ length: 32 }, () => random.pick([...'0123456789abcdef'])).join('')
  const text = hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  return random.chance(0.1) ? text.toUpperCase() : text
}

const two = (random: Random, below: number) => String(random.integer(below)).padStart(2, '0')

function instantText(random: Random): string {
  const year = random.pick([
    '0001',
    '1700',
    '1899',
    '1969',
    '2000',
    '2024',
    '2100',
    '9999',
    `1${digits(random, 3)}`,
  ])
  const day = random.chance(0.01) ? two(random, 40) : String(1 + random.integer(28)).padStart(2, '0')
  const month = random.chance(0.01) ? two(random, 15) : String(1 + random.integer(12)).padStart(2, '0')
  const time = `${two(random, 24)}:${two(random, 60)}${random.chance(0.03) ? '' : `:${two(random, random.chance(0.02) ? 70 : 60)}`}`
  const fraction = random.chance(0.5) ? '' : `.${digits(random, 1 + random.integer(9))}`
  const offset = random.pick([
    '',
    '',
    'Z',
    '+02:00',
    '-05:30',
    '-00:00',
    random.chance(0.1) ? random.pick(['+0100', '+15:00', 'z']) : '',
  ])
  return `${year}-${month}-${day}T${time}${fraction}${offset}`
}

const pieces = [
  ...['plain', 'Tømming av oljeutskiller', '👍', 'a'.repeat(120), ' ', '\u007f', '\u2028'],
  ...['\\n', '\\r\\n', '\\t', '\\"', '\\\\', '\\/', '\\b', '\\f', '\\u0041', '\\u00e5', '\\u20AC'],
  ...['\\uD83D\\uDC4D', '\\ud83d\\udc4d', '\\u000a', '\\u005c', '\\u0009', '\\N', '":1,', '{"a":1}'],
]
const hostilePieces = [
  '\\u0000',
  '\\ud83d',
  '\\udc4d',
  '\\udc4d\\ud83d',
  '\\ud83d\\u0041',
  '\\ud83d\\ud83d\\udc4d',
]

function stringText(random: Random, isHostile = random.chance(0.05)): string {
  const all = isHostile
    ? [...pieces, ...hostilePieces]
    : pieces.filter((piece) => piece !== '\\N' && piece !== '":1,' && piece !== '{"a":1}')
  return `"${Array.from({ length: random.integer(5) }, () => random.pick(all))
    .join('')
    .replaceAll('\\N', '\\\\N')
    .replaceAll('":1,', '\\":1,')
    .replaceAll('{"a":1}', '{\\"a\\":1}')}"`
}

function anyValue(random: Random, depth: number): string {
  const inside = () => anyValue(random, depth - 1)
  const kind = random.integer(depth > 0 ? 12 : 9)
  switch (kind) {
    case 0:
      return random.pick(['null', 'true', 'false'])
    case 1:
      return integerText(random)
    case 2:
      return hugeIntegerText(random)
    case 3:
      return `${random.pick(['', '-'])}${random.pick(['0', '7', digits(random, 5).replace(/^0+(?=.)/, '')])}.${digits(random, 1 + random.integer(120))}`
    case 4:
      return `${1 + random.integer(9)}${random.pick(['e', 'E'])}${random.pick(['', '+', '-'])}${random.integer(400)}`
    case 5:
      return `"${uuidText(random)}"`
    case 6:
      return `"${instantText(random)}"`
    case 7:
    case 8:
      return stringText(random, true)
    case 9:
    case 10:
      return nestedText(random, 2, inside)
    default:
      return random.pick(['"1"', '"true"', '1', '"AAAAAAAAB9E="', '{}', '[]'])
  }
}

/** A byte that is another, missing, or one too many; or the end is. */
function damaged(random: Random, bytes: Buffer): Buffer {
  const at = random.integer(bytes.length)
  const byte = Buffer.from([
    random.pick([...Buffer.from('"\\{}[],:0-.eE \0\n'), 0x80, 0xc3, 0xff, 0xed, random.integer(256)]),
  ])
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)]
  return random.pick([
    Buffer.concat([before, byte, after.subarray(1)]),
    Buffer.concat([before, byte, after]),
    Buffer.concat([before, after.subarray(1)]),
    before,
  ])
}
