// What a person gives to be sent: JSON from a file or standard input, and the fields of a form.

import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { JsonError, parseJson } from '../json/exact-json.ts'
import type { Json } from '../json/json.ts'
import { isObject } from '../record.ts'
import { UsageError } from '../usage-error.ts'

export async function readJsonFile(option: string, file: string): Promise<Json> {
  const bytes = await readBytes(option, file)
  try {
    return parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause
    throw new UsageError(`${option}: ${file} does not hold JSON: ${cause.message}`, { cause })
  }
}

/**
 * `NAME=VALUE` is a field, anything else a file with a JSON object of fields; what comes later wins. `FileData=@FILE` brings the
 * file's name and size as well, where nobody gives others.
 */
export async function readFormFields(parts: readonly string[]): Promise<Readonly<Record<string, Json>>> {
  const fields: Record<string, Json> = {}
  let described: Readonly<Record<string, Json>> = {}
  for (const part of parts) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(part) ?? []
    if (name === undefined || value === undefined) Object.assign(fields, await readFormFile(part))
    else if (name === 'FileData' && value.startsWith('@')) {
      const file = value.slice(1)
      const bytes = await readBytes('--form', file)
      fields[name] = bytes.toString('base64')
      described = { ...(file !== '-' && { FileName: basename(file) }), FileSize: bytes.length }
    } else fields[name] = value
  }
  return { ...described, ...fields }
}

async function readFormFile(file: string): Promise<Readonly<Record<string, Json>>> {
  const value = await readJsonFile('--form', file)
  if (!isObject(value)) throw new UsageError(`--form: ${file} must hold a JSON object of fields`)
  return value
}

async function readBytes(option: string, file: string): Promise<Buffer> {
  try {
    return file === '-' ? await buffer(process.stdin) : await readFile(file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new UsageError(`${option}: ${file} cannot be read (${code ?? 'failed'})`, { cause })
  }
}
