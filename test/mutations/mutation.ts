// Faults put into the code on purpose, and the tests that must notice them: a file for each promise, with an entry for each fault, which
// is what it breaks, where, and a diff without the lines around it.

import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

export type Mutation = {
  readonly name: string
  readonly promise: string
  readonly file: string
  /** Stands in the file exactly once. */
  readonly find: string
  readonly replace: string
  readonly test: string
}

const folder = fileURLToPath(new URL('.', import.meta.url))

/** By their promises. */
export const allMutations: readonly Mutation[] = globSync(`${folder}P*.diff`)
  .toSorted((one, other) => numberOf(one) - numberOf(other))
  .flatMap((path) => mutationsIn(readFileSync(path, 'utf8'), `P${numberOf(path)}`))

function numberOf(path: string): number {
  return Number(basename(path, '.diff').slice(1))
}

function mutationsIn(text: string, promise: string): readonly Mutation[] {
  return text
    .trimEnd()
    .split('\n\n')
    .map((entry) => {
      const [name = '', place = '', ...lines] = entry.split('\n')
      const [, file, test] = /^(src\/\S+), noticed by (\S+)$/.exec(place) ?? []
      if (!file || !test || !/^(-.*\n)+(\+.*\n)*$/.test(`${lines.join('\n')}\n`))
        throw new Error(`"${name}" of ${promise} is no fault: it needs a place and a diff`)
      const after = (sign: string) =>
        lines
          .filter((line) => line.startsWith(sign))
          .map((line) => line.slice(1))
          .join('\n')
      return { name, promise, file, find: after('-'), replace: after('+'), test: `test/${test}.test.ts` }
    })
}

/** Those of which each word is the promise, or a part of the name, the file or the test. */
export const pickMutations = (all: readonly Mutation[], words: readonly string[]): readonly Mutation[] =>
  all.filter(({ promise, name, file, test }) =>
    words.every((word) => promise === word || [name, file, test].some((text) => text.includes(word))),
  )

/** The text of the file with the fault in it; null when it is not clear where to put it. */
export const mutated = (text: string, { find, replace }: Mutation): string | null =>
  text.split(find).length === 2 ? text.replace(find, () => replace) : null
