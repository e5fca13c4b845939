// DATABASE_URL in every form in which people have it, as libpq reads it.

import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { addressIn, readPostgresUrl } from '../../src/util/postgres-url.ts'

/** Where the driver would go. */
const read = (text: string) => {
  const { hosts, wish } = readPostgresUrl(text)
  const targets = hosts.map((url) => {
    const { host, port, user, password, database } = new pg.Client(url.href)
    return [host, port, user, password, database]
  })
  return { addresses: hosts.map(addressIn), targets, wish }
}

describe('a URL of Postgres', () => {
  it.each([
    ['postgres://u:p@db/x', ['db', 5432, 'u', 'p', 'x']],
    ['postgresql://u:p%40ss@db.example:6000/x?sslmode=require', ['db.example', 6000, 'u', 'p@ss', 'x']],
    ['postgres://u:p@@db/x', ['db', 5432, 'u', 'p@', 'x']],
    ['postgres://u:p@[::1]:6000/x', ['::1', 6000, 'u', 'p', 'x']],
    ['postgres:///x?host=db&port=6000&user=u&password=p', ['db', 6000, 'u', 'p', 'x']],
    ['postgres://u:p@/x?host=/var/run/postgresql', ['/var/run/postgresql', 5432, 'u', 'p', 'x']],
    ['postgres://u:p@/x?host=/cloudsql/a:b:c', ['/cloudsql/a:b:c', 5432, 'u', 'p', 'x']],
    ['postgres://u:p@%2Fvar%2Frun:6000/x', ['/var/run', 6000, 'u', 'p', 'x']],
    ['postgres://u:p@:6000/x?host=%2Ftmp', ['/tmp', 6000, 'u', 'p', 'x']],
    ['postgres://u:p@db/x?host=/tmp&port=6000', ['/tmp', 6000, 'u', 'p', 'x']],
  ])('with one host: %s', (text, target) => {
    expect(read(text)).toMatchObject({ targets: [target], wish: null })
  })

  it.each([
    ['postgres://u:p@a:5432,b:5433/x', ['a:5432', 'b:5433']],
    ['postgres://u:p@a,b,c/x?port=6000', ['a:6000', 'b:6000', 'c:6000']],
    ['postgres://u:p@/x?host=a,b&port=6000,6001', ['a:6000', 'b:6001']],
    ['postgres:///x?host=/run/a,/run/b&user=u&password=p', ['/run/a:5432', '/run/b:5432']],
    ['postgres://u:p@[::1]:6000,b/x', ['[::1]:6000', 'b:5432']],
  ])('with several: %s', (text, addresses) => {
    const found = read(text)
    expect(found.addresses).toEqual(addresses)
    for (const [, , user, password, database] of found.targets)
      expect([user, password, database]).toEqual(['u', 'p', 'x'])
  })

  it('says what a session has to be like', () => {
    const { addresses, wish } = read('postgres://u:p@a,b/x?target_session_attrs=prefer-standby')
    expect([addresses, wish]).toEqual([['a:5432', 'b:5432'], 'prefer-standby'])
  })

  it.each([
    ['host=db dbname=x', /^must be a URL such as/],
    ['mysql://db/x', /^must be a URL such as/],
    ['postgres://u:p@a:99999/x', /^names a port that is none/],
    ['postgres://u:p@a:x,b/x', /^names a port that is none/],
    ['postgres://u:p@/x?host=a,b,c&port=1,2', /^names 3 hosts and 2 ports/],
    [
      'postgres://u:p@a,b/x?target_session_attrs=master',
      /^says target_session_attrs=master; it must be one of any,/,
    ],
  ])('is refused in words without its password (P9): %s', (text, words) => {
    expect(() => readPostgresUrl(text)).toThrow(words)
  })
})
