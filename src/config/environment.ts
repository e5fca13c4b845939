// The environment: the variables of this process with those of .env beneath them, and files that hold a value. Nothing else reads it.

import { readFileSync, statSync } from 'node:fs'
import { parseEnv } from 'node:util'

export type Environment = Readonly<Record<string, string | undefined>>

/** What is wrong with the configuration, one line a variable. Exit 2. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  get problems(): readonly string[] {
    return this.message.split('\n').map((line) => line.trim())
  }
}

/** The variables of this process, with those of a `.env` file in the working directory beneath them; null: without it. */
export function readEnvironment(file: string | null = '.env'): Environment {
  return { ...(file === null ? {} : readDotEnv(file)), ...process.env }
}

/** What somebody should know of the `.env` file. Secrets are in it, and others of this machine could read them. */
export function dotEnvWarnings(file = '.env'): readonly string[] {
  const mode = statSync(file, { throwIfNoEntry: false })?.mode ?? 0
  // Windows has no such modes: it answers with one for everybody.
  const isOpen = (mode & 0o077) !== 0 && process.platform !== 'win32'
  const open = `${file} can be read by other users of this machine (mode ${(mode & 0o777).toString(8).padStart(4, '0')}), and it holds secrets. Run: chmod 600 ${file}`
  const text = readDotEnvText(file)
  const lines = [...ignoredIn(text), ...ambiguousIn(text)]
  return [...(isOpen ? [open] : []), ...lines.map((one) => `${file} ${one}`)]
}

/** Lines that look as if they set something, and set nothing: `PAGE_SIZE: 500`. Their text is not told: it may be the second line of a secret (P9). */
export function ignoredIn(text: string): readonly string[] {
  // A value between quotes may have several lines, which are its own.
  const alone = text.replaceAll(/=[ \t]*(["'`]).*?\1/gs, (value) => `=${value.replaceAll(/[^\n]/g, '')}`)
  return alone.split('\n').flatMap((line, at) => {
    const isMeant = /^\s*(?:export\s+)?[A-Z][A-Z0-9_]*(?:\s*:.*|\s+[^=]*)?\s*$/.test(line)
    return isMeant ? [`line ${at + 1} sets nothing. Write NAME=VALUE, with an equals sign.`] : []
  })
}

/** Values that this program reads in another way than compose does: both call such a file `.env`. */
export function ambiguousIn(text: string): readonly string[] {
  return text.split('\n').flatMap((line, at) => {
    const [, name, value = ''] = /^\s*(?:export\s+)?(\w+)\s*=\s*(.*)$/.exec(line) ?? []
    const [sign] = value.startsWith("'")
      ? []
      : ((/^"/.test(value) ? /[$\\]/ : /^`|\$|(?<!\s)(?<!^)#/).exec(value.replace(/\s#.*$/, '')) ?? [])
    return name && sign
      ? [
          `line ${at + 1}: programs disagree on the ${sign} in ${name}. Write its value between single quotes.`,
        ]
      : []
  })
}

/** Where an environment says which source it is of. No program can be given a variable of this name. */
export const sourceVariable = ' source'

/** Where the environment of a source has WEBHOOK_SECRET of the deployment, from which its own one follows. */
export const webhookMasterVariable = ' webhook master'

/** Where the environment of a source says which variable the file of sources takes this secret from, if that is not set. */
export const unsetPlaceOf = (name: string): string => ` place of ${name}`

/** Empty: of the one that the environment itself describes. */
export const sourceOfEnvironment = (environment: Environment): string => environment[sourceVariable] ?? ''

export type Origin = 'environment' | '.env' | 'SOURCES_FILE' | 'demo'

/** Where what is set comes from; what is in neither place is a setting of the demo. */
export function originsOf(environment: Environment, dotEnv: Environment): (name: string) => Origin | null {
  return (name) => {
    const value = environment[name]
    if (!value?.trim()) return null
    if (process.env[name] === value) return 'environment'
    if (dotEnv[name] === value) return '.env'
    return sourceOfEnvironment(environment) === '' ? 'demo' : 'SOURCES_FILE'
  }
}

/** An address may have its password in a variable of its own, where it is written as it is, without percent signs. */
const passwords: Readonly<Record<string, Readonly<Record<string, typeof withPassword>>>> = {
  DATABASE_URL: { DATABASE_PASSWORD: withPassword },
  REDIS_URL: { REDIS_PASSWORD: withPassword, REDIS_SENTINEL_PASSWORD: withSentinelPassword },
}

/** A variable's text. Empty means not set. */
export function readVariable(environment: Environment, name: string, problems: string[]): string | undefined {
  let text = readText(environment, name, problems)
  for (const [apart, added] of Object.entries(passwords[name] ?? {})) {
    // What is wrong with it is told of its own variable.
    const password = text && readText(environment, apart, [])
    if (text && password) text = added(text, password)
  }
  return text
}

/** An address that has a password keeps it. */
function withPassword(url: string, password: string): string {
  return url.replace(
    /^([\w+-]+:\/\/)(?:([^/?#@:]*)@)?(?![^/?#]*@)/,
    (_, scheme, user = '') => `${scheme}${user}:${encodeURIComponent(password)}@`,
  )
}

function withSentinelPassword(url: string, password: string): string {
  if (/[?&]sentinelPassword=/.test(url)) return url
  return `${url}${url.includes('?') ? '&' : '?'}sentinelPassword=${encodeURIComponent(password)}`
}

/** From the file that NAME_FILE names when NAME itself is not set. */
function readText(environment: Environment, name: string, problems: string[]): string | undefined {
  // As all other programs have it.
  const inLowerCase = name.endsWith('_PROXY') ? environment[name.toLowerCase()]?.trim() : undefined
  const direct = inLowerCase || environment[name]?.trim()
  const file = environment[`${name}_FILE`]?.trim()
  if (direct && file) problems.push(`${name} and ${name}_FILE are both set: remove one of them`)
  if (direct || !file) return direct || undefined
  try {
    return readSecretFile(file) || undefined
  } catch (cause) {
    problems.push(
      `${name}_FILE names ${file}, which cannot be read (${(cause as NodeJS.ErrnoException).code})`,
    )
    return undefined
  }
}

export const readSecretFile = (file: string): string => readFileSync(file, 'utf8').trim()

export function readDotEnv(file = '.env'): Environment {
  const text = readDotEnvText(file)
  // Windows writes a mark before the first name, or all of it in UTF-16.
  if (text.includes('\0')) throw new ConfigError('  .env is not UTF-8: save it as UTF-8')
  return parseEnv(text.replace(/^\ufeff/, ''))
}

function readDotEnvText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'ENOENT') return ''
    throw new ConfigError(`  .env cannot be read (${code}): make it readable or remove it`, { cause })
  }
}
