// Bodies of HTML forms, small and only where a route wants them: other routes take any body and read none.

import type { FastifyInstance, FastifyRequest } from 'fastify'

export type Fields = Readonly<Record<string, string>>

const mostBytes = 16_384
const formType = 'application/x-www-form-urlencoded'

/** Adds routes whose requests may carry a form. */
export function withForms(server: FastifyInstance, add: (scope: FastifyInstance) => void): void {
  server.register(async (scope) => {
    scope.addContentTypeParser(
      formType,
      { parseAs: 'string', bodyLimit: mostBytes },
      (_request, body, done) => done(null, new URLSearchParams(String(body))),
    )
    add(scope)
  })
}

/** Fields that were left empty are not there. Of one that comes twice the first holds. */
export function fieldsOf({ body }: Pick<FastifyRequest, 'body'>): Fields {
  const fields = new Map<string, string>()
  if (!(body instanceof URLSearchParams)) return {}
  for (const [name, value] of body)
    if (value.trim() !== '' && !fields.has(name)) fields.set(name, value.trim())
  return Object.fromEntries(fields)
}
