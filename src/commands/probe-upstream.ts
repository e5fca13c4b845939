// Whether each service of the upstream signs us in and shows us each stream, and what its contract is like. Reads only.

import type { Config } from '../config.ts'
import { openConfiguredUpstream } from '../configured-upstream.ts'
import type { Logger } from '../log.ts'
import type { ServiceName, Stream } from '../streams.ts'
import { probeContract } from '../sync/probe-contract.ts'
import type { OperationName } from '../upstream/operations.ts'
import type { RequestOf } from '../upstream/request.ts'
import { openSource } from '../upstream/source.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { type Check, failed } from './probe-check.ts'

export type ProbeUpstream = {
  readonly config: Config
  readonly streams: readonly Stream[]
  readonly log: Logger
  readonly signal: AbortSignal
}

export async function* probeService(
  { config, streams, log, signal }: ProbeUpstream,
  service: ServiceName,
): AsyncGenerator<Check> {
  let signIn: Check | null = null
  const upstream = openConfiguredUpstream(
    {
      config,
      log,
      observer: {
        signInDone: ({ outcome, durationMs }) => {
          const isFine = outcome !== 'failed'
          signIn = {
            name: `sign-in ${service}`,
            isFine,
            says: isFine ? `a token in ${Math.round(durationMs)} ms` : '',
          }
        },
      },
    },
    service,
  )
  if (!upstream) return
  try {
    const mine = streams.filter((stream) => stream.service === service)
    for (const [index, stream] of mine.entries()) {
      const rights = await probeRights(upstream, stream, signal)
      if (index === 0) {
        const first = signIn as Check | null
        // Its own error came with the first request.
        if (first && !first.isFine) {
          yield { ...first, says: rights.check.says }
          return
        }
        if (first) yield first
        const date = rights.check.isFine ? await dateOf(upstream, stream, signal) : null
        if (date) yield clockCheck(service, date)
      }
      yield rights.check
      if (rights.check.isFine && stream.kind === 'changes' && rights.received > 0)
        yield* contractChecks(upstream, stream, signal)
    }
  } finally {
    upstream.close()
  }
}

async function probeRights(upstream: Upstream, stream: Stream, signal: AbortSignal) {
  const name = `stream ${stream.name}`
  try {
    const { records } = await openSource(upstream, stream).list({ page: 1, pageSize: 1 }, signal)
    const empty =
      stream.service === 'assignment'
        ? 'there is no data, or CLIENT_GUID is not yours'
        : 'there is no data, or this user sees none'
    const says = records.length > 0 ? 'readable' : `readable but empty, which is ambiguous: ${empty}`
    return { check: { name, isFine: true, says }, received: records.length }
  } catch (error) {
    return { check: failed(name, error), received: 0 }
  }
}

/** The list that came says nothing of the time; a second, equal request does. Null when this one fails. */
async function dateOf(upstream: Upstream, stream: Stream, signal: AbortSignal): Promise<Date | null> {
  try {
    return (await upstream.call(stream.list as OperationName, firstPage(stream), signal)).date
  } catch {
    return null
  }
}

/** Lists without pages come whole; they are short. */
const firstPage = (stream: Stream): RequestOf<OperationName> =>
  (stream.kind === 'changes'
    ? { query: { Page: 1, PageSize: 1 } }
    : { query: {} }) as RequestOf<OperationName>

const mostSkewMs = 30_000

function clockCheck(service: ServiceName, date: Date): Check {
  // The header has whole seconds.
  const skewMs = Date.now() - date.getTime() - 500
  const isFine = Math.abs(skewMs) <= mostSkewMs
  const seconds = Math.round(Math.abs(skewMs) / 1000)
  const says =
    seconds <= 2
      ? 'agrees with the upstream'
      : `${seconds} s ${skewMs > 0 ? 'ahead of' : 'behind'} the upstream's`
  return {
    name: `clock ${service}`,
    isFine,
    says: isFine ? says : `${says}: set the clock of this machine (NTP)`,
  }
}

async function* contractChecks(
  upstream: Upstream,
  stream: Stream & { kind: 'changes' },
  signal: AbortSignal,
): AsyncGenerator<Check> {
  try {
    const facts = await probeContract(openSource(upstream, stream), stream, signal)
    for (const { name, value } of facts) yield { name: `${stream.name} ${name}`, isFine: true, says: value }
  } catch (error) {
    yield failed(`${stream.name} neworchanged`, error)
  }
}
