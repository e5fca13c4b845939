// `GET /api/v1/…`: the documents that the terminal prints with `--json`, and the description of them all. Beside it the whole API: who may
// read gets documents, who may act brings the token of an operator.

import type { FastifyRequest } from 'fastify'
import type { Document } from '../../documents/document.ts'
import { documents } from '../../documents/table.ts'
import { withTimeout } from '../../util/waiting.ts'
import { type Console, forReaders } from '../readers.ts'
import { readerOf } from '../reading-places.ts'
import { queryOf, type Routes } from '../server.ts'
import { apiActionRoutes } from './actions.ts'
import { describeApi } from './openapi.ts'
import { apiBase, apiScope, parametersOf, refuseOtherMethods, sendDocument } from './scope.ts'

type Options = Pick<Console, 'statusQueries'> & { readonly version: string }

/** A Postgres that is frozen keeps its connections and never answers. */
const timeoutMs = 15_000
const descriptionPath = '/openapi.json'

const apiReads =
  ({ statusQueries, version }: Options): Routes =>
  (scope) => {
    let description: object | null = null
    scope.get(descriptionPath, async (_request, reply) => {
      description ??= describeApi(version)
      return sendDocument(reply, description)
    })
    refuseOtherMethods(scope, descriptionPath, 'GET')
    for (const document of Object.values(documents)) {
      const url = document.path.replaceAll(/\{(\w+)\}/g, ':$1')
      scope.get(url, { config: { place: document.isSearch ? 'search' : 'page' } }, async (request, reply) => {
        const asked = parametersOf(document.asked, request)
        const queries = statusQueries(readerOf(request))
        if (queries === null)
          return reply.code(503).send({ error: 'The worker still waits for its database.' })
        const found = await withTimeout(timeoutMs, queries.document(document, asked as never))
        const next = nextPage(document, asked, found, request)
        if (next !== null) reply.header('link', `<${next}>; rel="next"`)
        return sendDocument(reply, found)
      })
      refuseOtherMethods(scope, url, 'GET')
    }
    scope.all('/*', async (_request, reply) =>
      reply
        .code(404)
        .send({ error: `Nothing is at this address. ${apiBase}${descriptionPath} describes all there is.` }),
    )
  }

/** The address of the lines after these; null: these are the last. */
function nextPage(
  { cursorOf, nextOf }: Document,
  asked: Readonly<Record<string, unknown>>,
  found: unknown,
  request: FastifyRequest,
): string | null {
  const cursor = nextOf
    ? nextOf(found as never)
    : cursorOf && Array.isArray(found) && found.length > 0 && found.length === asked.limit
      ? cursorOf(found.at(-1) as never)
      : null
  if (cursor === null) return null
  const [path] = request.url.split('?')
  const more = queryOf(request)
  more.set('cursor', cursor)
  return `${path}?${more}`
}

export const apiRoutes = (
  reading: Parameters<typeof forReaders>[0],
  options: Options & Parameters<typeof apiActionRoutes>[0],
): readonly Routes[] => [
  apiScope(options.log, [apiActionRoutes(options)]),
  forReaders(reading, [apiScope(options.log, [apiReads(options)])]),
]
