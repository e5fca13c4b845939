// One call of the upstream for a person, for `tidemark api` and `tidemark webhooks`: what is sent, and what is printed of the answer.
// After a write the worker is asked to read what it changed, so that the mirror shows it at once.

import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type Config, loadConfig } from '../config/load.ts'
import { openConfiguredUpstream, privateFieldsIn, streamsIn } from '../configured.ts'
import { hasCluster } from '../embedded-postgres/location.ts'
import { JsonError } from '../json/bounds.ts'
import { type Json, repeatedFields } from '../json/json.ts'
import { parseJson } from '../json/parse.ts'
import { type Logger, redact } from '../log.ts'
import { type NamedAssignment, readRelatedAgain } from '../store/book/related.ts'
import { openDatabase } from '../store/server/connect.ts'
import { isAssignments, keyIn } from '../streams/names.ts'
import { isObject } from '../streams/record.ts'
import type { Upstream } from '../upstream/client.ts'
import { UpstreamError } from '../upstream/http/errors.ts'
import { type AnyRequest, ParameterError, prepareRequest } from '../upstream/operations/request.ts'
import type { Operation } from '../upstream/operations/table.ts'
import { messageOf, UsageError } from '../util/errors.ts'
import { jsonText, visible } from '../util/text.ts'
import { openDriver } from '../worker/queue/driver.ts'
import { openRunQueue } from '../worker/queue/requests.ts'
import type { Call } from './command.ts'
import { type ExitCode, exitCodes } from './exit.ts'
import { checkUnchanged, planWrite, replacesRecord, replaceWarning } from './merge-write.ts'
import { quietly } from './mirror.ts'
import { recordedHere } from './recorded.ts'

const embeddedUrlFile = '.tidemark/url'

/** The stream of a source that shows what a write changed. */
function affectedStream({ source }: Pick<Config, 'source'>, { name }: Operation): string {
  if (name.includes('Webhook')) return keyIn(source, 'webhook_subscription')
  return keyIn(source, name.includes('Note') ? 'assignment_note' : 'assignment')
}

export async function requestRunAfterWrite(
  { config, log }: { readonly config: Config; readonly log: Logger },
  operation: Operation,
  assignment: NamedAssignment | null,
): Promise<void> {
  const stream = affectedStream(config, operation)
  if (!streamsIn(config).some(({ name }) => name === stream)) return
  const url = config.databaseUrl ?? (await embeddedUrl())
  if (url === null) return log.debug({ stream }, 'there is no mirror here to bring up to date')
  const wantsRelated = isAssignments(stream) && config.related.length > 0
  const relatedOf = wantsRelated ? assignment : null
  try {
    await using opened = new AsyncDisposableStack()
    const database = opened.use(await openDatabase({ url, log }))
    // A write to a related record may leave the assignment's row version as it was, so the worker is told.
    if (relatedOf !== null) await readRelatedAgain(database.pool, config.source, relatedOf)
    const { redisUrl } = config
    const { driver } = opened.adopt(await openDriver({ redisUrl, database, log }), (one) => one.close())
    const runs = openRunQueue(driver, (error) => log.debug({ err: error }, 'the queue has trouble'))
    opened.defer(() => runs.close())
    await runs.requestRun({ stream, kind: 'incremental', cause: 'write' })
    if (relatedOf !== null) await runs.requestRun({ stream, kind: 'related', cause: 'write' })
    log.debug({ stream }, 'the worker was asked to read what changed')
  } catch (error) {
    log.warn(
      { why: messageOf(error), stream },
      'the upstream was changed; the mirror shows it after the next scheduled run',
    )
  }
}

/** The URL of the embedded Postgres if it runs already: none is started for this. */
export async function embeddedUrl(): Promise<string | null> {
  try {
    return (await readFile(embeddedUrlFile, 'utf8')).trim() || null
  } catch {
    return null
  }
}

// One call of the upstream for a person: what it answers is printed as its own JSON, with every digit, less what is known to
// be secret (P9). A write is followed by a run request.
export async function callUpstream(call: Call, operation: Operation, request: AnyRequest): Promise<ExitCode> {
  checkBeforeSending(call, operation, request)
  const { log, signal } = call
  const config = loadConfig(call.environment)
  if (
    call.values.merge === true &&
    privateFieldsIn(config).wanted(affectedStream(config, operation)).length > 0
  )
    throw new UsageError(
      `--merge would write the record back without the fields that DICTIONARY leaves out, and with masked ones. Give the whole record instead.`,
    )
  const upstream = openConfiguredUpstream({ config, log }, operation.service)
  if (!upstream)
    throw new UsageError(`${operation.path} belongs to the tracking service: set TRACKING_BASE_URL.`)
  const isWrite = operation.method !== 'GET'
  const requestRun = () => requestRunAfterWrite({ config, log }, operation, assignmentOf(request))
  try {
    const toSend = await planned(call, upstream, operation, request)
    if (toSend === null) return exitCodes.done
    const send = () => upstream.call(operation, toSend, signal)
    const { body, status } = isWrite
      ? await recordedWrite({ config, log }, operation, toSend, send)
      : await send()
    if (body === null) log.info({ status }, 'done; the upstream answered without a body')
    else print(call, body)
    if (isWrite) await requestRun()
    return exitCodes.done
  } catch (error) {
    if (error instanceof UpstreamError) {
      printRefusal(call, error)
      if (mayHaveWritten(error)) await requestRun()
    }
    throw error
  } finally {
    upstream.close()
  }
}

/** What is sent is not recorded: it may hold what people are called. Without a mirror there is no record either, and none is made. */
async function recordedWrite<Answer extends { readonly status: number }>(
  { config, log }: { readonly config: Config; readonly log: Logger },
  operation: Operation,
  request: AnyRequest,
  send: () => Promise<Answer>,
): Promise<Answer> {
  const { databaseUrl: url } = config
  if (url === null && !(await hasCluster('.tidemark'))) return await send()
  let isSent = false
  const sendOnce = () => {
    isSent = true
    return send()
  }
  try {
    await using database = await openDatabase({ url, log: quietly(log) })
    const [path = ''] = prepareRequest(operation, request).target.split('?')
    const given = { action: 'api' as const, target: `${operation.method} ${path}` }
    return await recordedHere(
      { pool: database.pool, log },
      given,
      sendOnce,
      ({ status }) => `The upstream answered with status ${status}.`,
    )
  } catch (error) {
    if (isSent) throw error
    log.warn({ why: messageOf(error) }, 'this write to the upstream could not be recorded in tidemark.action')
    return await send()
  }
}

/** Whether a failed request may have changed something: not if it only read, or was refused. */
const mayHaveWritten = ({ method, status, mayHaveArrived }: UpstreamError): boolean =>
  method !== 'GET' && mayHaveArrived && (status === null || status < 400 || status >= 500)

function checkBeforeSending({ values }: Call, operation: Operation, request: AnyRequest): void {
  const { method, path } = operation
  try {
    prepareRequest(operation, request)
  } catch (cause) {
    throw cause instanceof ParameterError ? new UsageError(cause.message, { cause }) : cause
  }
  if (values['dry-run'] === true && method === 'GET')
    throw new UsageError('--dry-run is for requests that write; a GET changes nothing.')
  if (values.merge === true && !replacesRecord(operation))
    throw new UsageError(`--merge is for a PUT that replaces a record; ${method} ${path} is not one.`)
}

/** What is sent in the end; null: nothing, because it was only to be shown. */
async function planned(
  { values, stdout, log, signal }: Call,
  upstream: Upstream,
  operation: Operation,
  request: AnyRequest,
): Promise<AnyRequest | null> {
  const [isMerge, isDryRun] = [values.merge === true, values['dry-run'] === true]
  const given = request.body as Json | undefined
  if (!replacesRecord(operation) || !isObject(given) || !(isMerge || isDryRun)) {
    if (replacesRecord(operation)) log.warn(replaceWarning)
    if (!isDryRun) return request
    const { target, body } = prepareRequest(operation, request)
    stdout.json({ would: `${operation.method} ${target}`, body: given ?? body })
    return null
  }
  const writing = { upstream, operation, body: given, isMerge, signal }
  const plan = await planWrite(writing)
  if (isDryRun) {
    if (!isMerge) log.warn(replaceWarning)
    const shown = { would: `${operation.method} ${operation.path}`, changes: plan.changes }
    stdout.write(`${redact(jsonText(shown))}\n`)
    return null
  }
  await checkUnchanged(writing, plan)
  return { ...request, body: plan.body }
}

function assignmentOf({ path }: AnyRequest): NamedAssignment | null {
  if (path?.assignmentId !== undefined) return { id: String(path.assignmentId) }
  return path?.assignmentIdExt === undefined ? null : { idExt: String(path.assignmentIdExt) }
}

function print({ log, stdout }: Call, body: Json): void {
  stdout.write(`${redact(jsonText(body))}\n`)
  for (const record of Array.isArray(body) ? body : [body]) {
    const earlier = isObject(record) ? record[repeatedFields] : undefined
    if (earlier) log.warn({ earlier }, 'the answer has these fields twice; the last value of each is printed')
  }
}

/** Prints the whole answer of the upstream. The error message, which comes afterwards, tells what it means. */
function printRefusal({ stdout }: Call, { body, code }: UpstreamError): void {
  // What the identity provider answered is no answer of the operation.
  if (!body?.length || code === 'UPSTREAM_SIGN_IN') return
  const text = body.toString('utf8')
  try {
    stdout.write(`${redact(jsonText(parseJson(body)))}\n`)
  } catch {
    stdout.write(`${visible(redact(text)).trimEnd()}\n`)
  }
}

// What a person gives to be sent: JSON from a file or standard input, and the fields of a form.
export async function readJsonFile(option: string, file: string): Promise<Json> {
  const bytes = await readBytes(option, file)
  try {
    return parseJson(bytes)
  } catch (cause) {
    if (!(cause instanceof JsonError)) throw cause
    throw new UsageError(`${option}: ${file} is not valid JSON: ${cause.message}`, { cause })
  }
}

/**
 * `NAME=VALUE` is a field, anything else a file with a JSON object of fields; what comes later wins. `FileData=@FILE` brings the
 * file's name and size as well, where nobody gives others.
 */
export async function readFormFields(parts: readonly string[]): Promise<Readonly<Record<string, Json>>> {
  const fields: Record<string, Json> = {}
  let described: Readonly<Record<string, Json>> = {}
  for (const part of parts) {
    const [, name, value] = /^(\w+)=(.*)$/s.exec(part) ?? []
    if (name === undefined || value === undefined) {
      const given = await readJsonFile('--form', part)
      if (!isObject(given))
        throw new UsageError(
          `--form takes NAME=VALUE or a file with a JSON object of fields; ${part} is neither.`,
        )
      Object.assign(fields, given)
    } else if (name === 'FileData' && value.startsWith('@')) {
      const file = value.slice(1)
      const bytes = await readBytes('--form', file)
      fields[name] = bytes.toString('base64')
      described = { ...(file !== '-' && { FileName: basename(file) }), FileSize: bytes.length }
    } else fields[name] = value
  }
  return { ...described, ...fields }
}

async function readBytes(option: string, file: string): Promise<Buffer> {
  try {
    return file === '-' ? await buffer(process.stdin) : await readFile(file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (/^\s*[{[]/.test(file))
      throw new UsageError(
        `${option} takes the name of a file, not JSON. To send JSON as it is, write it to standard input: echo '{…}' | tidemark … -`,
        { cause },
      )
    const problem = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code ?? 'failed'})`
    throw new UsageError(`${option}: ${file}: ${problem}.`, { cause })
  }
}
