// A document is what `--json` prints in the terminal and what the API answers: what can be asked for, what comes, and how it is read. Each is
// described here once, so that the two are the same.

import { z } from 'zod'
import type { Alerting } from '../problems/receivers.ts'
import type { Problem } from '../problems/stream-problems.ts'
import type { readActions } from '../store/book/actions.ts'
import {
  type Catalogue,
  type MirroredStream,
  pickStream,
  relatedBeside,
  type Stream,
} from '../streams/catalog.ts'
import type { Settings } from '../streams/settings.ts'

/** A connection that only reads. */
export type Client = Parameters<typeof readActions>[0]

/** What documents are read from; each takes what it needs. */
export type Facts = {
  readonly pool: Client
  /** Those that are configured. */
  readonly streams: readonly Stream[]
  readonly catalogue: Catalogue
  /** The least that late commits are waited for. */
  readonly lookbackMs: (stream: string) => number
  readonly targets: Alerting['targets']
  readonly alerting: () => Alerting
  readonly problems: () => Promise<readonly Problem[]>
  /** Left out: those of the source that the environment describes. */
  readonly settings: (source?: string) => Promise<Settings>
}

export type Document<Needed = Facts, Asked = never, Answer = unknown> = {
  /** Where the API has it, below `/api/v1`. */
  readonly path: string
  readonly title: string
  /** Rejects with `NotThere` when nothing has the name or the key that was asked for. */
  readonly read: (facts: Needed, asked: Asked) => Promise<Answer>
  /** Of a list that goes on: what follows this line comes after its cursor. */
  readonly cursorOf?: (line: never) => string
  /** The same of an answer that says itself whether it goes on. */
  readonly nextOf?: (answer: never) => string | null
  /** It may take a second or two, so fewer at once are answered. */
  readonly isSearch?: true
  /** The parameters of its path and its query. */
  readonly asked: z.ZodObject
  readonly answer: z.ZodType<Answer>
}

/** Infers the types of one from its schemas. */
export const document = <Needed, Asked extends z.ZodObject, Answer extends z.ZodType>(
  described: Document<Needed, z.output<Asked>, z.output<Answer>> & {
    readonly asked: Asked
    readonly answer: Answer
  },
): Document<Needed, z.output<Asked>, z.output<Answer>> => described

// Parts of schemas. A document that came over HTTP becomes the one that was sent: its times are dates again.
export const time = z.coerce.date().meta({ type: 'string', format: 'date-time' })
/** Numbers that JavaScript may not hold are texts. */
export const digits = z.string().regex(/^-?\d+$/, 'it has to be a whole number')
/** How many, or how long in whole units: programs of other languages hold it in 64 bits. */
export const amount = z.number().meta({ type: 'integer', format: 'int64' })
/** A number that may have a part behind its point. */
export const measure = z.number()

export const list = <Item extends z.ZodType>(item: Item) =>
  z.array(item) as unknown as z.ZodType<readonly z.output<Item>[]>

export const moment = z.iso.datetime().describe('such as 2026-01-31T14:30:00Z')
/** Null: it was not given. Nothing happened here before 1970, and Postgres knows no year 0. */
export const momentIn = (text: string | undefined): Date | null =>
  text === undefined ? null : new Date(Math.max(0, Date.parse(text)))

/** An id, as lists show it. */
export const id = z.string().regex(/^\d{1,18}$/, 'it has to be an id, as lists show it')
export const streamName = z
  .string()
  .regex(/^(?:[a-z][a-z0-9_]{0,23}\.)?\w{1,63}$/, 'it has to be the name of a stream')
/** Postgres keeps no text with a NUL in it. */
const withoutNul = '^[^\\x00]*$'
export const heldText = z.string().regex(new RegExp(withoutNul), 'it holds a NUL')
export const streamNames = z.array(streamName).max(50).default([]).describe('only these; may be repeated')

/** With the related records beside them. */
export const withRelated = (streams: readonly Stream[]): readonly MirroredStream[] => [
  ...streams,
  ...relatedBeside(streams),
]

/** The name of the stream that was asked for; null: of all. */
export const nameIn = (known: readonly MirroredStream[], asked: string | undefined): string | null =>
  asked === undefined ? null : pickStream(asked, known).name

/** How much of a list is wanted. */
export const page = (usual: number) => ({
  limit: z.int().min(1).max(1000).default(usual).describe('how many lines'),
  cursor: id.optional().describe('goes on after the page whose `Link` named it'),
})
