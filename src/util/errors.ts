// Errors as this program makes and tells them.

/** What was asked for cannot be done as it was written; the message is one line that says what would be right. Exit 2, or status 400. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  /** The field of the form, or the option, that is wrong. Null: it is about all that was said. */
  readonly field: string | null
  constructor(message: string, { field = null, ...options }: ErrorOptions & { field?: string | null } = {}) {
    super(message, options)
    this.field = field
  }
}

/** Nothing has the name or the key that was asked for. Exit 2, or status 404. */
export class NotThere extends UsageError {}

/** Postgres cannot be used as it is; the message says where and what to do. Exit 4. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
}

/** The file of sources does not name it any more: nothing is made of it. */
export class SourceGone extends Error {
  override readonly name = 'SourceGone'
}

/** The work takes longer than its caller wants to wait. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut'
}

/** Anything can be thrown. */
export const errorOf = (thrown: unknown): Error =>
  thrown instanceof Error ? thrown : new Error(String(thrown))

/** Connecting to several addresses at once fails with as many errors, of which the first says as much as all. */
export const messageOf = (thrown: unknown): string =>
  thrown instanceof AggregateError && thrown.errors.length > 0
    ? messageOf(thrown.errors[0])
    : errorOf(thrown).message
