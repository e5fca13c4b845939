// The advisory locks that have a number, all in one place: two of one number would wait for each other. The others are named by
// what they lock.

export const lockKeys = {
  /** Shared by the programs that use an embedded Postgres, in its database `postgres`. */
  embeddedMembers: 7_405_613,
  migration: 7_405_614,
  /** Of the tests, in the database that they are given. */
  testTemplate: 7_405_615,
  demo: 7_405_616,
  /** The worker's own subscription to webhooks. */
  subscription: 7_405_617,
  /** The book of what people were told. */
  alertBook: 7_405_618,
} as const
