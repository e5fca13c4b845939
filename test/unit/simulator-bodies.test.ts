// What the stand-in says of bodies that are wrong, word for word as the real service does, and what it makes of right ones.

import { describe, expect, it } from 'vitest'
import { type Incoming, wholeBody } from '../../src/simulator/answer.ts'
import { recordedSchemas } from '../../src/simulator/recorded-schemas.ts'
import { escaped } from '../../src/simulator/rendering.ts'
import { bodyShape, readForm, readRecord } from '../../src/simulator/request-bodies.ts'

const shape = bodyShape(recordedSchemas.assignment, 'assignment')
const attachment = bodyShape(recordedSchemas.attachment, 'attachment')
const request = (body: string, type = 'application/json'): Incoming => ({
  method: 'POST',
  service: 'assignment',
  path: '/api/Assignment',
  query: new Map(),
  headers: { 'content-type': type },
  body: Buffer.from(body),
})
const form = 'application/x-www-form-urlencoded'

type Outcome = ReturnType<typeof readRecord>
function errorsOf(read: Outcome): Record<string, string[]> {
  if (!('refusal' in read)) throw new Error('The body was taken.')
  return JSON.parse(wholeBody(read.refusal).toString()).errors
}
function storedOf(read: Outcome): Record<string, unknown> {
  if ('refusal' in read) throw new Error(wholeBody(read.refusal).toString())
  return JSON.parse(JSON.stringify(read.value.stored))
}
const record = (body: string) => readRecord(request(body), shape, 'Europe/Oslo')

describe('a body of JSON', () => {
  const line = (message: string, path: string, byte: number, number = 0) => ({
    [path]: [`${message} Path: ${path} | LineNumber: ${number} | BytePositionInLine: ${byte}.`],
  })
  const notConverted = (type: string) => `The JSON value could not be converted to System.${type}.`
  const nullable = (type: string) => notConverted(`Nullable\`1[System.${type}]`)

  it.each([
    ['{"customerId":"x"}', line(nullable('Int32'), '$.customerId', 17)],
    ['{"assignmentPriority":256,"customerId":1.5}', line(nullable('Byte'), '$.assignmentPriority', 25)],
    ['{"price":"x"}', line(nullable('Decimal'), '$.price', 12)],
    ['{"price":true}', line(nullable('Decimal'), '$.price', 13)],
    ['{"fixedPrice":"true"}', line(nullable('Boolean'), '$.fixedPrice', 20)],
    ['{"signature":"%%"}', line(notConverted('Byte[]'), '$.signature', 17)],
    ['{"uid":null}', line(notConverted('Guid'), '$.uid', 11)],
    ['{"sysDeleted":null}', line(notConverted('Boolean'), '$.sysDeleted', 18)],
    ['{\n "customerId": "æ"\n}', line(nullable('Int32'), '$.customerId', 19, 1)],
    [
      '"x"',
      line('The JSON value could not be converted to AssignmentService.Entities.TblAssignment.', '$', 3),
    ],
    ['x', line("'x' is an invalid start of a value.", '$', 0)],
    ['{"a" 1}', line("'1' is invalid after a property name. Expected a ':'.", '$', 5)],
    ['{} x', line("'x' is invalid after a single JSON value. Expected end of data.", '$', 3)],
    [
      '{"city":"x\n"}',
      line("'0x0A' is invalid within a JSON string. The string should be correctly escaped.", '$.city', 10),
    ],
    [
      '{"assignmentName":"a", "assignmentName":"b" ,}',
      line(
        'The JSON object contains a trailing comma at the end which is not supported in this mode. Change the reader options.',
        '$',
        45,
      ),
    ],
  ])('%j is refused with the place of the mistake', (body, errors) => {
    expect(errorsOf(record(body))).toEqual({ ...errors, assignment: ['The assignment field is required.'] })
  })

  it.each(['', '  ', 'null'])('%j is none', (body) => {
    expect(errorsOf(record(body))).toEqual({
      '': ['A non-empty request body is required.'],
      assignment: ['The assignment field is required.'],
    })
  })

  it('is taken field by field, in the form in which it is stored', () => {
    const body =
      '{"ASSIGNMENTID":"21","estimatedHours":"1.5","price":99999999999999.99995,"invoiceNumber":9007199254740993,"plannedStart":"2026-03-29T10:00:00Z","nosuch":{"a":[1,{}]},"uid":"016CE57E-F2C4-4352-97E1-590931AEEA24","isInvoiced":false}'
    expect(storedOf(record(body))).toEqual({
      AssignmentId: 21,
      EstimatedHours: 1.5,
      Price: 100_000_000_000_000,
      InvoiceNumber: 9_007_199_254_740_992,
      PlannedStart: '2026-03-29T10:00:00',
      UID: '016ce57e-f2c4-4352-97e1-590931aeea24',
      IsInvoiced: false,
    })
    const read = record(body)
    const { Price, InvoiceNumber } = 'value' in read ? read.value.stored : {}
    expect([Price, InvoiceNumber].map((value) => JSON.stringify(value))).toEqual([
      '100000000000000.0000',
      '9007199254740993',
    ])
  })

  it('is refused when a field is too long, each one by name', () => {
    expect(errorsOf(record(`{"zipCode":"12345678901","countryCode":"NOR"}`))).toEqual({
      ZipCode: ['The field ZipCode must be a string with a maximum length of 10.'],
      CountryCode: ['The field CountryCode must be a string with a maximum length of 2.'],
    })
  })
})

describe('a form', () => {
  const readAttachment = (body: string, type = form) =>
    readForm(request(body, type), attachment, 'Europe/Oslo')

  it('is read with its types, and says of each field what is wrong', () => {
    expect(storedOf(readAttachment('FileName=a+b.txt&FileData=aGVsbG8%3D&IsOnServer=True&OwnerId='))).toEqual(
      {
        FileName: 'a b.txt',
        FileData: 'aGVsbG8=',
        IsOnServer: true,
      },
    )
    expect(errorsOf(readAttachment('AttachmentId=abc&UID=x&IsOnServer=1&FileData=+/+/'))).toEqual({
      AttachmentId: ["The value 'abc' is not valid for AttachmentId."],
      UID: ["The value 'x' is not valid for UID."],
      IsOnServer: ["The value '1' is not valid for IsOnServer."],
      FileData: ["The value ' / /' is not valid for FileData."],
    })
  })

  it('of another type is refused without a word', () => {
    expect(readAttachment('{}', 'application/json')).toMatchObject({ refusal: { status: 415, body: null } })
  })
})

describe('escaped', () => {
  it.each([
    ['"Ny <b>æøå</b> & \'\u{1f527}\'"', String.raw`"Ny <b>æøå</b> & '\uD83D\uDD27'"`],
    ['"\u00a0\u2028\ue000\u{20000}"', String.raw`"\u00A0\u2028\uE000\uD840\uDC00"`],
    [JSON.stringify('\u001f"\n\ud800'), String.raw`"\u001F\"\n\uD800"`],
    // A backslash that is part of the text, and what stands behind it, stay as they are.
    [JSON.stringify(String.raw`\u00e9 \n`), String.raw`"\\u00e9 \\n"`],
    ['"– € 3×2,5 mm² 日本"', '"– € 3×2,5 mm² 日本"'],
  ])('%s is written as %s', (json, written) => {
    expect(escaped(json)).toBe(written)
  })
})
