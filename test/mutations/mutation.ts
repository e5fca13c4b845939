// A fault put into the code on purpose, and the test that must notice it.

export type Mutation = {
  readonly name: string
  readonly promise: string
  readonly file: string
  /** Stands in the file exactly once. */
  readonly find: string
  readonly replace: string
  readonly test: string
}

/** Those of which each word is the promise, or a part of the name, the file or the test. */
export const pickMutations = (all: readonly Mutation[], words: readonly string[]): readonly Mutation[] =>
  all.filter(({ promise, name, file, test }) =>
    words.every((word) => promise === word || [name, file, test].some((text) => text.includes(word))),
  )

/** The text of the file with the fault in it; null when it is not clear where to put it. */
export const mutated = (text: string, { find, replace }: Mutation): string | null =>
  text.split(find).length === 2 ? text.replace(find, () => replace) : null

export const byPromise = (one: Mutation, other: Mutation): number =>
  Number(one.promise.slice(1)) - Number(other.promise.slice(1))
