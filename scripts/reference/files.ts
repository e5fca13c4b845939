// Every file of the checkout that is generated, whole or between two markers.

import { readFileSync } from 'node:fs'
import { apiPage } from './api.ts'
import { beliefList } from './beliefs.ts'
import { commandsPage } from './commands.ts'
import { configurationPage, environmentExample } from './configuration.ts'
import { dictionarySchema, fieldSettingsTable, streamSettingsTable } from './dictionary.ts'
import { exchangesPage } from './exchanges.ts'
import { metricsPage } from './metrics.ts'
import { mutationList } from './mutations.ts'
import { problemsPage } from './problems.ts'
import { sourcesSchema } from './sources.ts'
import { readerStates } from './states.ts'
import { tablesPage } from './tables.ts'

/** The text of each file by its path in the checkout. */
export async function generatedFiles(checkout: URL): Promise<ReadonlyMap<string, string>> {
  const read = (path: string) => readFileSync(new URL(path, checkout), 'utf8')
  return new Map([
    ['.env.example', environmentExample()],
    ['docs/reference/api.md', apiPage()],
    ['docs/reference/commands.md', await commandsPage()],
    ['docs/reference/configuration.md', configurationPage()],
    ['docs/reference/dictionary.schema.json', dictionarySchema()],
    ['docs/reference/exchanges.md', exchangesPage()],
    ['docs/reference/metrics.md', metricsPage()],
    ['docs/reference/problems.md', problemsPage()],
    ['docs/reference/sources.schema.json', sourcesSchema()],
    ['docs/reference/tables.md', tablesPage(checkout)],
    ...Object.entries(blocks).map(([path, content]) => [path, withBlocks(read(path), content)] as const),
  ])
}

/** Parts of pages that are written by hand: page, name of the block, what stands in it. */
const blocks: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'docs/guides/dictionary.md': { streams: streamSettingsTable, fields: fieldSettingsTable },
  'docs/how-it-works/beliefs.md': { beliefs: beliefList },
  'docs/how-it-works/proof.md': { mutations: mutationList },
  'docs/how-it-works/reading.md': { states: readerStates },
}

/** Puts text between `<!-- begin: name -->` and `<!-- end: name -->`. */
function withBlocks(page: string, contents: Readonly<Record<string, () => string>>): string {
  return Object.entries(contents).reduce((text, [name, content]) => {
    const [begin, end] = [`<!-- begin: ${name} -->\n`, `<!-- end: ${name} -->`]
    const [before, rest = '', ...more] = text.split(begin)
    const [, after] = rest.split(end)
    if (before === undefined || after === undefined || more.length > 0)
      throw new Error(`the page needs the markers of ${name} once`)
    return `${before}${begin}${content()}${end}${after}`
  }, page)
}
