// What a search names by the words of the pages: `assignment 14`, `run 443`, `checkpoint 7`. Pure.

const numbered = ['run', 'checkpoint', 'backfill', 'entry'] as const

export type Named =
  | { readonly what: 'record'; readonly stream: string; readonly key: string }
  | { readonly what: (typeof numbered)[number]; readonly id: string }

const folded = (words: string): string =>
  words
    .toLowerCase()
    .replaceAll(/[\s_-]+/g, '')
    .replace(/s$/, '')

/** Null: nothing in particular. */
export function namedIn(text: string, streams: readonly string[]): Named | null {
  const words = text.replaceAll('#', ' ').trim().split(/\s+/)
  // The longest name first: `assignment note 7` is a note.
  for (let length = words.length - 1; length > 0; length--) {
    const [name, rest] = [folded(words.slice(0, length).join(' ')), words.slice(length).join(' ')]
    const stream = streams.find((one) => folded(one) === name)
    if (stream !== undefined) return { what: 'record', stream, key: rest }
    const what = numbered.find((one) => one === name.replace('quarantine', ''))
    if (what && /^\d{1,18}$/.test(rest)) return { what, id: rest }
  }
  return null
}

/** The text that quotes say is to be taken as it is. */
export const unquoted = (text: string): string | null => /^["“”](.+)["“”]$/.exec(text)?.[1] ?? null
