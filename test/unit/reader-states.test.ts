// The manual shows the states of the reader of changes as they are.

import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { withReaderStates } from '../../scripts/reference/states.ts'

it('docs/how-it-works/reading.md shows the table as it is: run `npm run docs`', () => {
  const page = readFileSync(new URL('../../docs/how-it-works/reading.md', import.meta.url), 'utf8')
  expect(page).toBe(withReaderStates(page))
  expect(page).toContain('  proof --> ahead: sorting proven')
})
