// The checks of parameters against what the interface says about them, for values nobody thought of.

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findOperation } from '../../src/upstream/operations/find.ts'
import { ParameterError, prepareRequest } from '../../src/upstream/operations/request.ts'
import { allOperations, operations } from '../../src/upstream/operations/table.ts'

const bounds = {
  int32: [-(2n ** 31n), 2n ** 31n - 1n],
  int64: [-(2n ** 63n), 2n ** 63n - 1n],
  page: [1n, 2n ** 31n - 1n],
} as const

const attach = (body: object) =>
  prepareRequest(operations.addAttachment, { path: { assignmentId: 1 }, body }).body ?? ''
const send: Readonly<Record<keyof typeof bounds, (value: unknown) => string>> = {
  int32: (value) =>
    prepareRequest(operations.getAssignment, { path: { assignmentId: value } }).target.replace(
      '/api/Assignment/Id/',
      '',
    ),
  int64: (value) =>
    prepareRequest(operations.listChangedAssignments, { path: { rowVersion: value } }).target.replace(
      '/api/Assignment/neworchanged/',
      '',
    ),
  page: (value) =>
    prepareRequest(operations.listAssignments, { query: { PageSize: value } }).target.split('=')[1] ?? '',
}

/** What is sent, or null when the parameter is refused. */
function sent(action: () => string): string | null {
  try {
    return action()
  } catch (error) {
    if (error instanceof ParameterError) return null
    throw error
  }
}

// Numbers around every bound, and anywhere.
const integer = fc.oneof(
  fc
    .constantFrom(...Object.values(bounds).flat())
    .chain((bound) => fc.bigInt({ min: bound - 2n, max: bound + 2n })),
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }),
)

describe('integers', () => {
  it.each(Object.keys(bounds) as (keyof typeof bounds)[])(
    'P4: %s are sent exactly when within their bounds, or not at all',
    (kind) => {
      const [min, max] = bounds[kind]
      fc.assert(
        fc.property(integer, (value) => {
          const expected = value >= min && value <= max ? value.toString() : null
          const forms: unknown[] = [value, value.toString(), JSON.rawJSON(value.toString())]
          if (Number.isSafeInteger(Number(value))) forms.push(Number(value))
          for (const form of forms) expect(sent(() => send[kind](form))).toBe(expected)
        }),
        { numRuns: 2000 },
      )
    },
  )

  it.each(Object.keys(bounds) as (keyof typeof bounds)[])('%s are nothing but integers', (kind) => {
    const notInteger = fc.oneof(
      fc.double().filter((value) => !Number.isSafeInteger(value)),
      fc.string().filter((text) => !/^-?(?:0|[1-9]\d*)$/.test(text)),
      fc.constantFrom(
        null,
        undefined,
        true,
        {},
        [],
        [5],
        '+5',
        '05',
        '5 ',
        '5.0',
        '1e3',
        '0x10',
        '-',
        '--5',
        '٥',
      ),
    )
    fc.assert(
      fc.property(notInteger, (value) => {
        // A query parameter that is null or undefined is one that is not given.
        if (kind === 'page' && (value === null || value === undefined)) return
        expect(sent(() => send[kind](value))).toBeNull()
      }),
      { numRuns: 2000 },
    )
  })
})

describe('texts', () => {
  it('in a path arrive as they are, and never make another path of it', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const target = sent(
          () =>
            prepareRequest(operations.deleteAssignmentByIdExt, { path: { assignmentIdExt: text } }).target,
        )
        if (text === '' || text === '.' || text === '..' || !text.isWellFormed()) {
          expect(target).toBeNull()
          return
        }
        const { pathname, search, hash, host } = new URL(`https://host.example/base${target}`)
        expect({ search, hash, host }).toEqual({ search: '', hash: '', host: 'host.example' })
        const parts = pathname.split('/')
        expect(parts.slice(0, 4)).toEqual(['', 'base', 'api', 'Assignment'])
        expect(parts.slice(4).map(decodeURIComponent)).toEqual([text])
      }),
      { numRuns: 5000 },
    )
  })

  it('in a query arrive as they are', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (Filters, Sorts) => {
        const { target } = prepareRequest(operations.listAssignments, { query: { Filters, Sorts } })
        const { searchParams } = new URL(`https://host.example${target}`)
        expect(Object.fromEntries(searchParams)).toEqual({ Filters, Sorts })
      }),
    )
  })
})

describe('files', () => {
  it('P4: any bytes arrive as they are', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        const data = Buffer.from(bytes).toString('base64')
        expect(new URLSearchParams(attach({ FileData: data })).get('FileData')).toBe(data)
      }),
    )
  })
})

describe('flags of the extended read', () => {
  const flag = fc.constantFrom(true, false, 'true', 'false', undefined)

  it('are all sent as given, but file data never without attachments', () => {
    const names = Object.keys(operations.getExtendedAssignment.query)
    fc.assert(
      fc.property(fc.record(Object.fromEntries(names.map((name) => [name, flag]))), (query) => {
        const target = sent(
          () => prepareRequest(operations.getExtendedAssignment, { path: { assignmentId: 1 }, query }).target,
        )
        const given = Object.entries(query).flatMap(([name, value]) =>
          value === undefined ? [] : [[name, String(value)]],
        )
        const isAllowed =
          String(query.IncludeAttachmentFileData) !== 'true' || String(query.IncludeAttachment) !== 'false'
        expect(target && Object.fromEntries(new URL(`https://host.example${target}`).searchParams)).toEqual(
          isAllowed ? Object.fromEntries(given) : null,
        )
      }),
    )
  })
})

describe('findOperation', () => {
  it('finds each operation again by the path made for it', () => {
    const segment = fc.string({ unit: 'grapheme', minLength: 1 }).filter((text) => !/^\.{1,2}$/.test(text))
    fc.assert(
      fc.property(
        fc.constantFrom(...allOperations),
        segment,
        fc.nat({ max: 2 ** 31 - 1 }),
        (operation, text, id) => {
          const values = { assignmentId: id, employeeId: id, assignmentNoteId: id, rowVersion: id }
          const texts = { assignmentIdExt: text, assignmentNoteIdExt: text, webhookSubscriptionId: text }
          const names = [...operation.path.matchAll(/\{(\w+)\}/g)].flatMap(([, found]) => found ?? [])
          const path = Object.fromEntries(
            Object.entries({ ...values, ...texts }).filter(([key]) => names.includes(key)),
          )
          const body =
            operation.body === 'form' ? { FileName: 'a' } : operation.body === 'json' ? {} : undefined
          const { target } = prepareRequest(operation, { path, body })
          const found = findOperation(operation.method, target)
          const expected = Object.fromEntries(
            Object.entries(path).map(([key, value]) => [key, String(value)]),
          )
          // A word of the paths themselves is not taken for an external id.
          if ('nearest' in found)
            expect(text).toMatch(/^(?:id|idext|api|subscription|extended|neworchanged|webhooks)$/i)
          else expect(found).toMatchObject({ operation, path: expected })
        },
      ),
      { numRuns: 2000 },
    )
  })
})
