// An upstream that slips and answers nothing, once (P6).

import { expect, it } from 'vitest'
import { confirmEmpty } from '../../src/sync/lists/page-ends.ts'

const [nothing, something, refusal] = [
  { records: [], bytes: 2 },
  { records: [{ Id: 1 }], bytes: 10 },
  { refused: 400 },
]

it.each([
  ['nothing twice', [nothing, nothing, something], nothing],
  ['something the second time', [nothing, something], something],
  ['something at once', [something, nothing], something],
  ['a refusal', [refusal, something], refusal],
])('believes %s', async (_what, answers, believed) => {
  const left = [...answers]
  expect(await confirmEmpty(async () => left.shift() ?? nothing)).toBe(believed)
})
