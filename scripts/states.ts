// Writes the states of the reader of changes into docs/how-it-works/reading.md, between its markers.

import { readFileSync, writeFileSync } from 'node:fs'
import { withReaderStates } from './reference/states.ts'

const page = new URL('../docs/how-it-works/reading.md', import.meta.url)
writeFileSync(page, withReaderStates(readFileSync(page, 'utf8')))
