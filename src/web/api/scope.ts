// What holds for all of `/api/v1`: errors are problem documents (RFC 9457) of one line, a wrong method is told from a wrong address, and a
// request is read strictly by its schema.

import { STATUS_CODES } from 'node:http'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Logger } from '../../log.ts'
import { NotNow } from '../../operator/actions.ts'
import { messageOf, NotThere, TimedOut, UsageError } from '../../util/errors.ts'
import { jsonText } from '../../util/text.ts'
import { isTooSlow } from '../page-routes.ts'
import { queryOf, type Routes } from '../server.ts'

export const apiBase = '/api/v1'
const problemType = 'application/problem+json; charset=utf-8'

/** The request is not as the description says. Status 400. */
class Malformed extends Error {}

/** Adds routes below `/api/v1`. */
export const apiScope =
  (log: Logger, routes: readonly Routes[]): Routes =>
  (server) => {
    server.register(
      async (scope) => {
        scope.removeAllContentTypeParsers()
        scope.addContentTypeParser(
          'application/json',
          { parseAs: 'string', bodyLimit: mostBytes },
          (_request, body, done) => {
            try {
              done(null, body === '' ? {} : JSON.parse(String(body)))
            } catch {
              done(new Malformed('The body is no JSON.'))
            }
          },
        )
        // What is told in the short form of the other routes, by functions that they share, is a problem document here.
        scope.addHook('preSerialization', async (_request, reply, payload) =>
          reply.statusCode < 400 ? payload : problemFor(reply, textIn(payload)),
        )
        scope.setErrorHandler<FastifyError>((error, request, reply) => {
          const status = statusOf(error)
          if (status === 500 && !reply.raw.destroyed)
            log.warn({ err: error, route: request.routeOptions.url }, 'answering a request to the API failed')
          return reply.code(status).send({ error: textFor(status, error) })
        })
        for (const add of routes) add(scope)
      },
      { prefix: apiBase },
    )
  }

/** Bodies are a few short texts. */
const mostBytes = 16_384

const textIn = (payload: unknown): string =>
  typeof payload === 'object' && payload !== null && 'error' in payload ? String(payload.error) : 'It failed.'

function problemFor(reply: FastifyReply, detail: string) {
  const { statusCode: status } = reply
  reply.type(problemType)
  return { type: 'about:blank', title: STATUS_CODES[status] ?? 'Error', status, detail }
}

function statusOf(error: FastifyError): number {
  if (error instanceof Malformed) return 400
  if (error instanceof NotThere) return 404
  if (error instanceof UsageError) return 409
  if (error instanceof NotNow || error instanceof TimedOut || isTooSlow(error)) return 503
  const { statusCode = 500 } = error
  return statusCode < 500 ? statusCode : 500
}

function textFor(status: number, error: FastifyError): string {
  if (isTooSlow(error)) return 'This took longer than 2 s and was stopped. Ask for less.'
  if (error instanceof TimedOut) return 'The database did not answer. The worker keeps trying.'
  if (status === 413) return `The body is longer than ${mostBytes} bytes.`
  if (status === 415) return 'The body has to be JSON: send it as `Content-Type: application/json`.'
  if (status === 500) return 'It failed. The log of the worker says why.'
  return messageOf(error)
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean)
    .join(' ')
}

export const sendDocument = (reply: FastifyReply, document: unknown): FastifyReply =>
  reply.type('application/json; charset=utf-8').send(jsonText(document, 0))

/** The other methods of an address that has one. */
export function refuseOtherMethods(scope: FastifyInstance, url: string, allowed: 'GET' | 'POST'): void {
  const known: readonly string[] = allowed === 'GET' ? ['GET', 'HEAD'] : ['POST']
  const allow = [...known, 'OPTIONS'].join(', ')
  scope.route({
    method: scope.supportedMethods.filter((method) => !known.includes(method)),
    url,
    // Whatever the body is.
    onRequest: async ({ method }, reply) => {
      reply.header('allow', allow)
      if (method === 'OPTIONS') return reply.code(204).send()
      return reply.code(405).send({ error: `This address takes ${allow}.` })
    },
    handler: async () => {},
  })
}

// ── what is asked for ────────────────────────────────────────────────────────────────────────────────────────

/** Parameters of a path and a query come as texts, and are what their schema says. */
export function parametersOf(schema: z.ZodObject, request: FastifyRequest): Record<string, unknown> {
  const given: Record<string, unknown> = { ...(request.params as object) }
  const query = queryOf(request)
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name)
    const kind = kindOf(schema.shape[name])
    if (Object.hasOwn(given, name)) throw new Malformed(`\`${name}\` is given by the path.`)
    if (kind === 'array') given[name] = values
    else if (values.length > 1) throw new Malformed(`\`${name}\` is given more than once.`)
    else given[name] = kind === 'number' ? numberIn(values[0]) : values[0]
  }
  return parsed(schema, given)
}

const numberIn = (text = ''): unknown => (/^-?\d{1,15}$/.test(text) ? Number(text) : text)

/** The kind beneath what says that it may be left out. */
export function kindOf(schema: unknown): string {
  const { def } = (schema ?? { def: {} }) as {
    readonly def: { readonly type?: string; readonly innerType?: unknown }
  }
  return def.innerType === undefined ? (def.type ?? '') : kindOf(def.innerType)
}

export function parsed<Value>(schema: z.ZodType<Value>, given: unknown): Value {
  if (JSON.stringify(given ?? {}).includes('\\u0000')) throw new Malformed('A text holds a NUL.')
  const { success, data, error } = schema.safeParse(given)
  if (success) return data
  const [issue] = error.issues
  if (issue?.code === 'unrecognized_keys' && schema instanceof z.ZodObject) {
    const names = Object.keys(schema.shape).map((name) => `\`${name}\``)
    const known =
      names.length === 0 ? 'Nothing can be given here.' : `What can be given is ${names.join(', ')}.`
    throw new Malformed(`Nothing is called \`${issue.keys[0]}\`. ${known}`)
  }
  const path = issue?.path.join('.') ?? ''
  throw new Malformed(
    `${path === '' ? 'The body' : `\`${path}\``}: ${issue?.message ?? 'it cannot be read'}.`,
  )
}
