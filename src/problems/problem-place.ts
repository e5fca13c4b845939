// Where in the console a problem is looked into, or mended: for its card, and for the link of its alert.

import type { Problem } from './stream-problems.ts'

/** Related records have no page of a stream of their own, so kinds that may be about them lead to lists. */
export function placeOf({
  key,
  kind,
  stream,
}: Pick<Problem, 'key' | 'stream'> & { readonly kind: string }): readonly [address: string, words: string] {
  const of = (path: string) => (stream === null ? path : `${path}?stream=${encodeURIComponent(stream)}`)
  switch (kind) {
    case 'deletions_blocked':
    case 'deletions_frozen':
      return [of('/approve'), 'Review deletions…']
    case 'quarantine':
      return [of('/quarantine'), 'Look at it']
    case 'missed_rows':
    case 'target_missed':
      return [`/streams/${encodeURIComponent(stream ?? '')}`, 'Look at it']
    case 'failing':
    case 'stuck':
    case 'inconclusive':
    case 'stale':
    case 'local_damage':
    case 'upstream_restored':
      return [of('/runs'), 'Runs']
    case 'schema_drift':
    case 'volatile_field':
    case 'private_fields':
    case 'dictionary':
      return [of('/dictionary'), 'Fields']
    case 'contract_differs':
    case 'contract_changed':
    case 'contract_unusable':
      return ['/upstream/contract', 'Contract']
    case 'source_stopped':
    case 'sources_file':
      return ['/sources', 'Sources']
    case 'part_down':
      return key === 'part_down:alerts' ? ['/problems#alerts', 'Alerts'] : ['/workers', 'Workers']
    default:
      return ['/upstream', 'Upstream']
  }
}
