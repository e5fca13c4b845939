// Whose data the mirror holds, compared with what the settings name.

import type { Pool } from 'pg'
import type { Stream } from '../../streams/catalog.ts'
import { UsageError } from '../../util/errors.ts'
import { queryRows } from '../server/query.ts'
import type { Queryable } from '../server/session.ts'
import type { sourceTable } from '../tables/state.ts'
import { inOneTransaction } from './ask.ts'

export type SourceIdentity = Readonly<
  Pick<typeof sourceTable.$inferSelect, 'name' | 'service' | 'baseUrl' | 'account'>
>

export type OtherSource<Wanted extends SourceIdentity = SourceIdentity> = {
  readonly here: SourceIdentity
  readonly wanted: Wanted
}

/** The rows here are those of another source than the settings name. Nothing was read or written. */
export class SourceDiffers extends UsageError {}

const columns = 'name, service, base_url as "baseUrl", account'

/** Of the source $1. */
export const identitiesSql = `select ${columns} from tidemark.source where name = $1 order by service`

/** Whose data is here, by service. `names`: of which sources; left out: of all. */
export const readSources = (client: Queryable, names: readonly string[] | null = null) =>
  queryRows<SourceIdentity>(client, {
    name: 'tidemark_sources',
    text: `select ${columns} from tidemark.source where $1::text[] is null or name = any ($1) order by name, service`,
    values: [names],
  })

/** Those of which it is not noted yet that the rows here are theirs. */
export async function unclaimedSources<Wanted extends SourceIdentity>(
  client: Queryable,
  wanted: readonly Wanted[],
): Promise<readonly Wanted[]> {
  const known = await readSources(client, namesOf(wanted))
  const keyOf = ({ name, service }: SourceIdentity) => `${name} ${service}`
  const here = new Map(known.map((one) => [keyOf(one), one]))
  return wanted.filter((one) => {
    const found = here.get(keyOf(one))
    return !found || !isSame(found, one)
  })
}

const namesOf = (sources: readonly SourceIdentity[]): readonly string[] => [
  ...new Set(sources.map(({ name }) => name)),
]

/** The services whose rows here came from another source than the settings name. */
export async function otherSources<Wanted extends SourceIdentity>(
  client: Queryable,
  wanted: readonly Wanted[],
): Promise<readonly OtherSource<Wanted>[]> {
  return othersAmong(await readSources(client, namesOf(wanted)), wanted)
}

export const othersAmong = <Wanted extends SourceIdentity>(
  known: readonly SourceIdentity[],
  wanted: readonly Wanted[],
): readonly OtherSource<Wanted>[] =>
  wanted.flatMap((one) => {
    const here = known.find(({ name, service }) => name === one.name && service === one.service)
    return here && !isSame(here, one) ? [{ here, wanted: one }] : []
  })

/** An address of this machine tells nothing about the source: a tunnel or a proxy may be behind any port. */
const isLoopback = (url: string): boolean =>
  /^(localhost|127(\.\d+){3}|\[::1\])$/i.test(new URL(url).hostname)

function isSame(one: SourceIdentity, other: SourceIdentity): boolean {
  const isElsewhere = one.baseUrl !== other.baseUrl && !isLoopback(one.baseUrl) && !isLoopback(other.baseUrl)
  return one.account.toLowerCase() === other.account.toLowerCase() && !isElsewhere
}

export const otherSourceText = ({ here, wanted }: OtherSource): string =>
  `The ${here.service} data${here.name === '' ? '' : ` of source ${here.name}`} in this database came from ${here.baseUrl} (${here.account}), but the settings name ${wanted.baseUrl} (${wanted.account}).`

export const waysOut = (source: string): string =>
  source === ''
    ? 'If these are two sources, use another database (DATABASE_URL). If it is the same one under a new name: tidemark source adopt --reason TEXT'
    : `If these are two sources, give the other one a name of its own in the file of sources. If it is the same one under a new name: tidemark source adopt --source ${source} --reason TEXT`

type AdoptedSource = Omit<SourceIdentity, 'service'> & {
  readonly service: string
  readonly streams: readonly Pick<Stream, 'name'>[]
}

/** Declares that the rows here are those of this source. Runs in progress still read the one before, so none of them can write any more. */
export const adoptSource = (
  pool: Pool,
  { name, service, baseUrl, account, streams }: AdoptedSource,
  { by, reason }: { readonly by: string; readonly reason: string },
): Promise<void> =>
  inOneTransaction(pool, async (client) => {
    // Update the source first: a run that takes its lease from now on waits for this. Runs that have theirs are fenced out next.
    await client.query(
      `update tidemark.source set base_url = $2, account = $3, noted_at = now(), adopted_by = $4, reason = $5
         where service = $1 and name = $6`,
      [service, baseUrl, account, by, reason, name],
    )
    await client.query('update tidemark.lease set epoch = epoch + 1 where stream = any ($1)', [
      streams.map(({ name }) => name),
    ])
  })
