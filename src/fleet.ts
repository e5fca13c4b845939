// Many sources as one context: what is asked of a stream goes to the source that it is of. Sources come and go while the worker runs.

import type { SyncContext } from './context.ts'
import { sourceIn } from './streams/names.ts'
import { UsageError } from './util/errors.ts'

export type Fleet = {
  /** Of all sources. Its lists are those of the moment. */
  readonly context: SyncContext
  /** By name; what was there before under it is closed. */
  add(source: string, context: SyncContext): Promise<void>
  /** Closes what is there. */
  remove(source: string): Promise<void>
  sources(): readonly string[]
  /** Null: it is not open. */
  of(source: string): SyncContext | null
}

/** `first`: gives what all sources have in common, and is closed last. */
export function openFleet(first: SyncContext): Fleet {
  const members = new Map<string, SyncContext>([['', first]])
  const all = <One>(pick: (context: SyncContext) => readonly One[]): readonly One[] =>
    [...members.values()].flatMap(pick)
  const of = (stream: string): SyncContext => {
    const member = members.get(sourceIn(stream))
    if (!member) throw new UsageError(`The source of ${stream} is not read at the moment.`)
    return member
  }
  const close = async (member: SyncContext | undefined) => {
    if (member !== first) await member?.[Symbol.asyncDispose]()
  }
  const remove = async (source: string) => {
    const before = members.get(source)
    members.delete(source)
    await close(before)
  }
  const context: SyncContext = {
    database: first.database,
    store: {
      openRun: (kind, stream, options) => of(stream).store.openRun(kind, stream, options),
      nextBackfill: (stream) => of(stream).store.nextBackfill(stream),
      history: {
        positionAt: (stream, time) => of(stream).store.history.positionAt(stream, time),
        reachedAt: (stream, versions) => of(stream).store.history.reachedAt(stream, versions),
        anchors: (stream, atMost, limit) => of(stream).store.history.anchors(stream, atMost, limit),
        known: (stream, position, limit) => of(stream).store.history.known(stream, position, limit),
        hasRows: (stream) => of(stream).store.history.hasRows(stream),
      },
    },
    get streams() {
      return all(({ streams }) => streams)
    },
    get catalogue() {
      return all(({ catalogue }) => catalogue)
    },
    get related() {
      return all(({ related }) => related)
    },
    assignmentService: first.assignmentService,
    budgets: first.budgets,
    tokens: first.tokens,
    sourceOf: (stream) => of(stream.name).sourceOf(stream),
    contextOf: (stream) => of(stream.name).contextOf(stream),
    read: (stream, kind, options) => of(stream.name).read(stream, kind, options),
    extendedLookup: (stream) => of(stream).extendedLookup(stream),
    readRelated: (options, stream = '') => of(stream).readRelated(options, stream),
    isRelatedDue: (stream = '') => of(stream).isRelatedDue(stream),
    compareOnce: (stream, page) => of(stream.name).compareOnce(stream, page),
    descriptions: first.descriptions,
    takeUpDictionary: first.takeUpDictionary,
    overrides: {
      read: first.overrides.read,
      takeUp: (stored) => all(({ overrides }) => overrides.takeUp(stored)),
    },
    privacy: privacyOf(first, of),
    async [Symbol.asyncDispose]() {
      for (const source of [...members.keys()]) await remove(source)
      await first[Symbol.asyncDispose]()
    },
  }
  return {
    context,
    async add(source, member) {
      const before = members.get(source)
      members.set(source, member)
      await close(before)
    },
    remove,
    sources: () => [...members.keys()],
    of: (source) => members.get(source) ?? null,
  }
}

const privacyOf = (
  first: SyncContext,
  of: (stream: string) => Pick<SyncContext, 'privacy'>,
): SyncContext['privacy'] => ({
  wanted: (stream) => of(stream).privacy.wanted(stream),
  fingerprint: (value) => first.privacy.fingerprint(value),
  expect: (stream) => of(stream).privacy.expect(stream),
  waiting: (stream) => of(stream.name).privacy.waiting(stream),
  apply: (stream, reason) => of(stream.name).privacy.apply(stream, reason),
  erase: (erasing, ...rest) => of(erasing[0]?.stream.name ?? '').privacy.erase(erasing, ...rest),
  relativesOf: (key, stream) => of(stream).privacy.relativesOf(key, stream),
  longDeleted: (stream, ...rest) => of(stream.name).privacy.longDeleted(stream, ...rest),
})
