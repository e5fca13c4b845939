// Reads variables of an environment by their tables, and collects what is wrong with them.

import type { z } from 'zod'
import { keepSecret } from '../log.ts'
import { catalogueOf } from '../streams/catalog.ts'
import { readPostgresUrl } from '../util/postgres-url.ts'
import { withOneHost } from '../util/redis-url.ts'
import { ConfigError, type Environment, readVariable, unsetPlaceOf } from './environment.ts'
import { misspeltIn } from './misspelt.ts'
import { byName, namesNobody } from './parsers.ts'
import {
  catalogueIn,
  readAddedStreams,
  type StreamVariable,
  streamVariables,
  variableOf,
  variablesOfStreams,
} from './stream-variables.ts'
import { nameInConfig, type Values, type Variable } from './variable.ts'

export type PerStream<Family extends StreamVariable> = Readonly<
  Record<string, z.output<ReturnType<(typeof streamVariables)[Family]['schemaOf']>>>
>

export type Reader = ReturnType<typeof openReader>

export function openReader(environment: Environment) {
  const problems: string[] = []
  const added = readAddedStreams(environment)
  const catalogue = catalogueOf(added)
  const read = (name: string, variable: Variable) => readOne(environment, name, variable, problems)
  let ofStreams: ReturnType<typeof variablesOfStreams> | null = null
  return {
    added,
    catalogue,
    values<Table extends Record<string, Variable>>(table: Table): Values<Table> {
      const entries = Object.entries(table).map(([name, variable]) => [
        nameInConfig(name, variable),
        read(name, variable),
      ])
      return Object.freeze(Object.fromEntries(entries)) as Values<Table>
    },
    perStream<Family extends StreamVariable>(family: Family): PerStream<Family> {
      ofStreams ??= variablesOfStreams(catalogue)
      const named = ofStreams
      const values = streamVariables[family].streams(catalogue).flatMap((stream) => {
        const name = variableOf(family, stream)
        const variable = named[name]
        return variable ? [[stream.name, read(name, variable)] as const] : []
      })
      for (const { name, meant } of misspeltIn(environment, `${family}_`))
        problems.push(`${name} does not name a stream: did you mean ${meant}?`)
      return Object.freeze(byName(values)) as PerStream<Family>
    },
    complain(problem: string) {
      problems.push(problem)
    },
    finish() {
      if (problems.length > 0) throw new ConfigError(problems.map((problem) => `  ${problem}`).join('\n'))
    },
  }
}

/** The value; undefined when it is not usable, which is added to the problems. Its secrets are cut from all output from now on (P9). */
export function readOne(
  environment: Environment,
  name: string,
  variable: Variable,
  problems: string[],
): unknown {
  const problemCount = problems.length
  const raw = readVariable(environment, name, problems)
  const schema =
    variable.schemaFor?.(catalogueIn(environment).map((stream) => stream.name)) ?? variable.schema
  const result = schema.safeParse(raw)
  // The place of a proxy is told to whoever cannot reach it.
  const isSecret = variable.secret && !(name.endsWith('_PROXY') && namesNobody(String(result.data)))
  if (isSecret && raw) keepSecret(raw)
  // With one host it is a URL like all others, in which the password is found.
  if (name === 'DATABASE_URL' && result.success && raw) keepSecret(readPostgresUrl(raw).hosts[0].href)
  if (name === 'REDIS_URL' && raw) keepSecret(withOneHost(raw))
  // What was added to it, such as a scheme, shows the password to what masks URLs.
  if (result.success && isSecret && typeof result.data === 'string') keepSecret(result.data)
  if (result.success) return result.data
  const issue = result.error.issues[0]
  const missing = raw === undefined && issue?.code === 'invalid_type'
  if (missing && problems.length > problemCount) return undefined
  const file = environment[`${name}_FILE`]?.trim()
  const place = environment[unsetPlaceOf(name)]
  const what = file
    ? `${name}_FILE names ${file}, which is empty`
    : place
      ? `the file of sources takes it from ${place}, which is not set`
      : variable.describe
  problems.push(`${name} ${missing ? `is not set: ${what}` : (issue?.message ?? 'is not usable')}`)
  return undefined
}
