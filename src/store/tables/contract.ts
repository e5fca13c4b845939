// What the upstream says about itself: the descriptions that were read, when they were looked for, and what changed from one to the next.

import { index, json, text, unique } from 'drizzle-orm/pg-core'
import { at, identity, int8, tidemark } from './state.ts'

/** OpenAPI descriptions of the upstream, each once. The current one of a service is the one that was read last. */
export const contractTable = tidemark.table(
  'contract',
  {
    id: identity(),
    /** The service that it describes, behind `acme.` for one of the source `acme`. */
    service: text('service').notNull(),
    /** Address or file where it was read. */
    location: text('location').notNull(),
    /** Version of OpenAPI. */
    openApi: text('openapi').notNull(),
    /** Its own title. */
    title: text('title').notNull(),
    /** Its own version. */
    version: text('version').notNull(),
    /** Equal for equal descriptions. */
    fingerprint: text('fingerprint').notNull(),
    /** What Tidemark read from it: operations, types, and remarks on what it could not use. */
    content: json('content').notNull(),
    /** The whole of it, as JSON text. */
    document: text('document').notNull(),
    /** When it was first read. */
    firstReadAt: at('first_read_at').notNull().defaultNow(),
    /** When it was last read. */
    lastReadAt: at('last_read_at').notNull().defaultNow(),
  },
  (table) => [unique('contract_once').on(table.service, table.fingerprint)],
)

/** When Tidemark last looked for the description of each service, and what it found. */
export const contractCheckTable = tidemark.table('contract_check', {
  /** The service. */
  service: text('service').primaryKey(),
  /** When Tidemark last looked; a look without an answer does not count. */
  checkedAt: at('checked_at').notNull().defaultNow(),
  /** The description that was there; empty: none. */
  contractId: int8('contract_id'),
  /** Why the description cannot be used; empty: it can, or there is none. */
  problem: text('problem'),
  /** Since when. */
  problemSince: at('problem_since'),
})

/** What changed from one description of a service to the next. */
export const contractChangeTable = tidemark.table(
  'contract_change',
  {
    id: identity(),
    /** The service. */
    service: text('service').notNull(),
    /** The stream whose records have the field; empty: an operation, or a type that is not mirrored. */
    stream: text('stream'),
    /** A field as `Type.field`, or an operation. */
    subject: text('subject').notNull(),
    /** What happened to it: `new field`, `field gone`, `type changed`, `bound changed`, `new operation` or `operation gone`. */
    change: text('change').notNull(),
    /** What was said of it before. */
    before: text('before'),
    /** What is said of it now. */
    after: text('after'),
    /** When it was found. */
    foundAt: at('found_at').notNull().defaultNow(),
    /** The description that says so. */
    contractId: int8('contract_id').notNull(),
  },
  (table) => [index('contract_change_by_time').on(table.foundAt)],
)
