// The pages of the manual, and what stands in them: blocks, commands, links.

import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const checkout = new URL('../../', import.meta.url)

export type Page = { readonly path: string; readonly text: string }

/** Everything for people: the pages beside the code and those of docs/. */
export const pages: readonly Page[] = globSync(['*.md', 'docs/**/*.md'], { cwd: fileURLToPath(checkout) })
  .sort()
  .map((path) => ({ path, text: readFileSync(new URL(path, checkout), 'utf8') }))

export function textOf(path: string): string {
  const page = pages.find((one) => one.path === path)
  if (!page) throw new Error(`there is no page ${path}`)
  return page.text
}

/** The insides of fenced blocks of a language, such as `sql`. */
export const blocksOf = ({ text }: Pick<Page, 'text'>, ...languages: readonly string[]): readonly string[] =>
  [...text.matchAll(/^( *)```(\w+)\n(.*?)^\1```/gms)]
    .filter(([, , language = '']) => languages.includes(language))
    .map(([, indent = '', , block = '']) => block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''))

export const statementsOf = (page: Pick<Page, 'text'>): readonly string[] =>
  blocksOf(page, 'sql').flatMap((block) =>
    block.split(/;(?:\n|$)/).filter((statement) => statement.trim() !== ''),
  )

/** What can be linked to in a page, as the usual hosts name it. */
export const anchorsOf = ({ text }: Pick<Page, 'text'>): readonly string[] =>
  [...withoutBlocks(text).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )

const withoutBlocks = (text: string): string => text.replaceAll(/^( *)```.*?^\1```/gms, '')

export const inlineCode = ({ text }: Pick<Page, 'text'>): readonly string[] =>
  [...withoutBlocks(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)

/** Each call of the program that a page shows, as the words behind its name. */
export function callsOf(page: Page): readonly (readonly string[])[] {
  const shown = blocksOf(page, 'console').flatMap((block) =>
    block.split('\n').flatMap((line) => (line.startsWith('$ ') ? [line.slice(2)] : [])),
  )
  const lines = [...blocksOf(page, 'sh').flatMap((block) => block.split('\n')), ...shown, ...inlineCode(page)]
  return lines.flatMap((line) => {
    const words = shellWords(line)
    return words.flatMap((word, index) => {
      if (word !== 'tidemark' || !words.slice(0, index).every(mayStandBefore)) return []
      const rest = words.slice(index + 1)
      const end = rest.findIndex((one) => ['|', '>', '<', '&&', '2>&1'].includes(one))
      return rest.length === 0 ? [] : [end < 0 ? rest : rest.slice(0, end)]
    })
  })
}

const mayStandBefore = (word: string, index: number, all: readonly string[]): boolean =>
  word === 'npx' || /^[A-Z_]+=/.test(word) || all.slice(index).includes('|')

/** Splits a line as a shell does, without comments; quotes keep spaces together. */
function shellWords(line: string): readonly string[] {
  const [code = ''] = line.split(/(?:^|\s)#\s/)
  return [...code.matchAll(/(?:[^\s'"]|'[^']*'|"[^"]*")+/g)].map(([word]) => word.replaceAll(/['"]/g, ''))
}
