// The page about the recorded exchanges: what was asked of a real service, and whether the simulator answers the same.

import { differing, type Exchange, exchanges } from '../../test/support/recorded.ts'
import { code, generatedBy, table } from './markdown.ts'

export function exchangesPage(): string {
  const differ = exchanges.filter(({ name }) => differing[name] !== undefined)
  return `${generatedBy('test/fixtures/recorded/exchanges.json and test/support/recorded.ts')}
# Recorded exchanges

${exchanges.length} requests were recorded with a real service of the kind that the upstream most likely is: ASP.NET Core, with its lists, errors and tokens. Each is replayed against the simulator by
\`test/integration/simulator-recorded.test.ts\`, in this order, as a test of the same name. Status, headers and body have to be the recorded ones, to the
character where the request and the records decide them; by form only where chance or the clock does: tokens, trace ids, new keys, times of now, and the order of rows that nobody asked for.

Replayed: ${exchanges.length}. Differing: ${differ.length === 0 ? 'none' : differ.length}.

${table(
  ['exchange', 'request', 'settings of the service', 'status', 'the simulator'],
  exchanges.map((exchange) => [
    exchange.name,
    code(requestOf(exchange)),
    settingsOf(exchange),
    String(exchange.response.status),
    differing[exchange.name] ?? 'answers the same',
  ]),
)}`
}

const longest = 110

function requestOf({ request: { method, path, query } }: Exchange): string {
  const text = `${method} ${path}${query ? `?${decoded(query)}` : ''}`.replaceAll('`', "'")
  return text.length > longest ? `${text.slice(0, longest)}…` : text
}

function decoded(query: string): string {
  try {
    return decodeURIComponent(query)
  } catch {
    return query
  }
}

/** Those that are not as in most exchanges. */
function settingsOf({ request: { settings } }: Exchange): string {
  const usual = exchanges[0]?.request.settings ?? {}
  return Object.entries(settings)
    .filter(([name, value]) => value !== usual[name])
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')
}
