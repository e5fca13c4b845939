// What a variable is: what it means, what holds without it, and how its text becomes a value.

import type { z } from 'zod'
import { knownStreams } from '../streams/catalog.ts'

export type Variable = {
  /** What it does, as it goes on after its name: for the manual, and for messages. */
  readonly describe: string
  /** The value when it is not set, `required`, or what happens then. */
  readonly fallback: string
  /** What can be written there. */
  readonly form: string
  readonly secret?: true
  /** It is ignored unless that one is set. */
  readonly needs?: string
  /** What it is called in the configuration; left out: as the variable, in camelCase. */
  readonly as?: string
  readonly schema: z.ZodType
  /** Instead, where it names streams, of which the settings may add some. */
  readonly schemaFor?: (streams: readonly string[]) => z.ZodType
}

export type Values<Table extends Record<string, Variable>> = {
  readonly [Name in keyof Table as NameOf<Name & string, Table[Name]>]: z.output<Table[Name]['schema']>
}
type NameOf<Name extends string, Any> = Any extends { readonly as: infer As extends string }
  ? As
  : CamelCase<Name>
type CamelCase<Name extends string> = Name extends `${infer Head}_${infer Tail}`
  ? `${Lowercase<Head>}${Capitalize<CamelCase<Tail>>}`
  : Lowercase<Name>

export const nameInConfig = (name: string, { as }: Pick<Variable, 'as'>): string =>
  as ?? name.toLowerCase().replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

export const ofStreams = <Schema extends z.ZodType>(schemaFor: (streams: readonly string[]) => Schema) => ({
  schema: schemaFor(knownStreams.map(({ name }) => name)),
  schemaFor,
})
