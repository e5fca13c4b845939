// Markdown at the terminal.

/** One line, whatever the upstream wrote: without characters that end a line, turn the direction of text, or cannot be seen. */
export const oneLine = (text: string): string =>
  text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, ' ')
    .replaceAll(/\p{Cf}|[\ufffe\uffff]/gu, '')
    .trim()

export const markdownTable = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] => [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`)
