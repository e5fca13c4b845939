// A fault put into the code on purpose, and the test that must notice it.

export type Mutation = {
  readonly name: string
  readonly promise: string
  readonly file: string
  readonly find: string
  readonly replace: string
  readonly test: string
}
