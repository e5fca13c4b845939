// Variables of a family, such as SCHEDULE_<STREAM>, that are none but look like one. They would be passed over in silence.

import { nearest } from './nearest.ts'

type Misspelt = { readonly name: string; readonly meant: string }

export function misspelt(
  environment: Readonly<Record<string, string | undefined>>,
  prefix: string,
  known: readonly string[],
): readonly Misspelt[] {
  const words = known.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length))
  return Object.keys(environment).flatMap((name) => {
    const [, word = '', file = ''] = /^(.*?)(_FILE)?$/.exec(name.slice(prefix.length)) ?? []
    if (!name.startsWith(prefix) || !environment[name]?.trim() || words.includes(word)) return []
    // KEY_USER is another program's, though "user" is near to "customer": who errs rarely errs at the beginning.
    const meant = nearest(word, words, words.length).find((known) => known.slice(0, 2) === word.slice(0, 2))
    return meant ? [{ name, meant: `${prefix}${meant}${file}` }] : []
  })
}
