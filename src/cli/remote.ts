// The terminal over the API of a worker (TIDEMARK_URL), for verbs whose documents and actions it has. No password of Postgres is needed.

import { loadMirrorConfig } from '../config/load.ts'
import type { Document } from '../documents/document.ts'
import { record, recordStory } from '../documents/records.ts'
import { parseJson } from '../json/parse.ts'
import type { ActionName } from '../operator/actions.ts'
import type { outcomeJson } from '../operator/mirror-actions.ts'
import { DatabaseError, messageOf, UsageError } from '../util/errors.ts'
import { onlyTargets } from '../web/actions.ts'
import { apiActionPaths, apiActions, comparePath } from '../web/api/actions.ts'
import { apiBase, kindOf } from '../web/api/scope.ts'
import type { Call } from './command.ts'

type Answer = { readonly status: number; readonly body: unknown; readonly next: string | null }
/** What a worker works at for longer goes on after its answer. */
const longestMs = 60_000
type Send = (method: 'GET' | 'POST', path: string, body?: object) => Promise<Answer>

/** What the worker says no to, and why. */
class Refused extends UsageError {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

export type Remote = NonNullable<ReturnType<typeof openRemote>>

/** Null: the terminal asks Postgres. */
export function openRemote({ environment, signal }: Pick<Call, 'environment' | 'signal'>) {
  const { tidemarkUrl: url, tidemarkToken: token } = loadMirrorConfig(environment)
  if (url === null) return null
  const send: Send = async (method, path, body) => {
    const headers = {
      ...(token !== null && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
    }
    const asked = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const until = AbortSignal.any([signal, AbortSignal.timeout(longestMs)])
    // No redirect is followed: what is sent is for this worker.
    const way = { signal: until, redirect: 'manual' } as const
    const answer = await fetch(`${url}${apiBase}${path}`, { ...asked, ...way }).catch((cause) => {
      signal.throwIfAborted()
      const why = messageOf(cause instanceof Error ? (cause.cause ?? cause) : cause)
      throw new DatabaseError(`The worker at ${url} (TIDEMARK_URL) does not answer: ${why}`, { cause })
    })
    const { status } = answer
    // P4
    const told: unknown = await answer
      .bytes()
      .then(parseJson)
      .catch(() => null)
    if (answer.ok && told !== null) return { status, body: told, next: nextIn(answer.headers.get('link')) }
    const detail = typeof told === 'object' && told !== null && 'detail' in told ? String(told.detail) : null
    if (status === 401 || status === 403)
      throw new Refused(
        status,
        token === null
          ? `The worker at ${url} asks who you are: set TIDEMARK_TOKEN.`
          : `The worker at ${url} refuses the token in TIDEMARK_TOKEN: ${detail ?? status}`,
      )
    if (detail !== null && status < 500) throw new Refused(status, detail)
    throw new DatabaseError(
      `The worker at ${url} (TIDEMARK_URL) answers ${status}. ${detail ?? 'Is it Tidemark?'}`,
    )
  }
  return {
    read: <Asked, Found>(document: Document<never, Asked, Found>, asked: Asked) =>
      read(send, document, asked),
    act: (name: ActionName, target: string, fields: Readonly<Record<string, string | null>>) =>
      act(send, name, target, fields),
    /** With what the upstream says, where the token may ask it and there is a way. */
    async compare(asked: { readonly stream: string; readonly key: string }) {
      try {
        const { body } = await send('POST', placeOf(comparePath, asked), {})
        return expected(recordStory, body)
      } catch (error) {
        // Some workers let everybody look who can connect.
        const isSilent = token === null ? [401, 403, 404] : [403, 404]
        if (error instanceof Refused && isSilent.includes(error.status))
          return await read(send, record, asked)
        throw error
      }
    },
  }
}

const nextIn = (link: string | null): string | null => /^<([^>]+)>; rel="next"$/.exec(link ?? '')?.[1] ?? null

const placeOf = (path: string, names: Readonly<Record<string, string>>): string =>
  path.replaceAll(/\{(\w+)\}/g, (_all, name: string) => encodeURIComponent(names[name] ?? ''))

function expected<Found>(schema: Document<never, never, Found>['answer'], body: unknown): Found {
  const { data, success } = schema.safeParse(body)
  if (success) return data
  throw new DatabaseError(
    'The worker at TIDEMARK_URL answers otherwise than this version of Tidemark expects: use the version of the worker.',
  )
}

const mostInPage = 1000

/** The document as it was sent. Of a list as many lines as were asked for, page by page. */
async function read<Asked, Found>(
  send: Send,
  { path, answer }: Pick<Document<never, Asked, Found>, 'path' | 'answer'>,
  asked: Asked,
): Promise<Found> {
  const query = new URLSearchParams()
  const place = placeOf(path, asked as Readonly<Record<string, string>>)
  for (const [name, value] of Object.entries(asked as object)) {
    if (value === undefined || path.includes(`{${name}}`)) continue
    for (const one of [value].flat()) query.append(name, String(one))
  }
  const wanted = Number(query.get('limit') ?? 0)
  if (wanted > mostInPage) query.set('limit', String(mostInPage))
  let { body, next } = await send('GET', query.size === 0 ? place : `${place}?${query}`)
  while (Array.isArray(body) && next !== null && body.length < wanted) {
    const more = await send('GET', next.replace(apiBase, ''))
    body = [...body, ...(more.body as unknown[])]
    next = more.next
  }
  return expected(answer, Array.isArray(body) && wanted > 0 ? body.slice(0, wanted) : body)
}

type Done = ReturnType<typeof outcomeJson>

/** What a verb gives as texts, as the API takes it. */
async function act(
  send: Send,
  name: ActionName,
  target: string,
  fields: Readonly<Record<string, string | null>>,
): Promise<Done> {
  const paths = apiActionPaths.flatMap(([one, path]) => (one === name ? [path] : []))
  // Of what can be done to all or to one, the path says which.
  const path = paths.find((one) => one.includes('{') === (target !== onlyTargets[name])) ?? paths[0] ?? ''
  const known = apiActions[name].fields.shape
  // Whoever writes the verb has typed the name that a form asks for once more.
  const given: Readonly<Record<string, string | null>> = { ...fields, target, confirm: target }
  const body = Object.entries(given).flatMap(([field, value]) => {
    const inBody = field.replaceAll('-', '_')
    const isOwn = field in fields || inBody in known
    return value === null || !isOwn ? [] : [[inBody, asDescribed(known[inBody], value)]]
  })
  const { body: done } = await send(
    'POST',
    path.replace(/\{\w+\}/, encodeURIComponent(target)),
    Object.fromEntries(body),
  )
  return done as Done
}

/** Some fields are numbers or yes and no. */
function asDescribed(schema: unknown, text: string): unknown {
  const kind = kindOf(schema)
  return kind === 'boolean' ? true : kind === 'number' ? Number(text) : text
}
