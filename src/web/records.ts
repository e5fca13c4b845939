// `POST /records/:stream/:key/compare`: asks the upstream for one record, and shows the page of the record with the answer. The answer is
// not kept: to see it again, people ask again.

import { forRole, hasOwnForm } from './actions.ts'
import { sendPage } from './pages/layout.ts'
import { recordPage, recordShown } from './pages/record.ts'
import type { Console } from './readers.ts'
import { readerOf } from './reading-places.ts'
import { fieldsOf, type Routes, withForms } from './server.ts'

type Options = Pick<Console, 'authentication' | 'statusQueries' | 'compare' | 'assets' | 'isDemo'>

export const recordRoutes =
  ({ statusQueries, compare, assets, isDemo, authentication }: Options): Routes =>
  (server) => {
    withForms(server, (scope) =>
      scope.post<{ Params: { stream: string; key: string } }>(
        '/records/:stream/:key/compare',
        forRole(authentication, 'operator'),
        async (request, reply) => {
          if (!hasOwnForm(authentication, request, fieldsOf(request).csrf ?? ''))
            return reply
              .code(403)
              .send({ error: 'That form was out of date, and nothing was done. Load the page again.' })
          const { stream, key } = request.params
          const queries = statusQueries(readerOf(request))
          const upstream = queries && (await compare(stream, key))
          if (!queries || upstream === null)
            return reply.code(404).send({ error: 'There is no such stream, or the worker is starting.' })
          const now = new Date()
          const viewer = authentication.viewerOf(request)
          const problems = queries.problems()
          const context = {
            statusQueries: queries,
            viewer,
            query: new URLSearchParams(),
            params: request.params,
            problems,
            now,
          }
          const shown = await recordShown(context, { upstream, at: now })
          return sendPage(reply, {
            title: recordPage.title,
            path: recordPage.place ?? '/',
            viewer,
            assets,
            isDemo,
            problems: await problems,
            asOf: now,
            ...shown,
          })
        },
      ),
    )
  }
