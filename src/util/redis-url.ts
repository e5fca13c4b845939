// What REDIS_URL may not be: an address of Redis Sentinel or of Redis Cluster, or several at once.

const wayOut =
  'which is not supported yet: give the address of one Redis that takes writes, such as redis://host:6379, or unset REDIS_URL to keep the queue in Postgres'

const kinds = { sentinel: 'is that of Redis Sentinel', cluster: 'is that of a Redis Cluster' } as const

/** What is wrong with a URL, as it goes on after `REDIS_URL `; null: nothing of this. */
export function redisUrlProblem(text: string): string | null {
  const [, scheme = '', authority = ''] = /^(redis[a-z+-]*):\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text) ?? []
  const kind = /sentinel|cluster/i.exec(scheme)?.[0].toLowerCase()
  if (kind === 'sentinel' || kind === 'cluster') return `${kinds[kind]}, ${wayOut}`
  return authority.includes(',') ? `names several hosts, ${wayOut}` : null
}

/** The same of what is found at the address, by its answer to INFO. */
export function redisInfoProblem(info: string): string | null {
  const mode = /^(?:redis|server)_mode:(sentinel|cluster)/m.exec(info)?.[1]
  return mode === 'sentinel' || mode === 'cluster' ? `${kinds[mode]}, ${wayOut}` : null
}
