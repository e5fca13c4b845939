// What was asked for cannot be done as it was written; the message is one line that says what would be right. Exit 2, or status 400.

export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** Postgres cannot be used as it is; the message says where and what to do. Exit 4. */
export class DatabaseError extends Error {
  override readonly name = 'DatabaseError'
}
