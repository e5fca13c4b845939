// `npm run docs`: writes what the manual takes from the code. A test compares it with what is in the checkout.

import { readFileSync, writeFileSync } from 'node:fs'
import { generatedFiles } from './reference/files.ts'

const checkout = new URL('../', import.meta.url)
for (const [path, text] of await generatedFiles(checkout)) {
  const file = new URL(path, checkout)
  const isNew = readOr(file, '') !== text
  if (isNew) writeFileSync(file, text)
  process.stdout.write(`${isNew ? 'wrote    ' : 'unchanged'}  ${path}\n`)
}

function readOr(file: URL, otherwise: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return otherwise
  }
}
