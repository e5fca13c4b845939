// Folders that are made, and what the file system says when a file or a folder cannot be written, in plain words.

import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { UsageError } from './errors.ts'

const meanings: Readonly<Record<string, string>> = {
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  EROFS: 'the file system is read-only',
  ENOTDIR: 'a part of that path is a file',
  EEXIST: 'a part of that path is a file',
  EISDIR: 'a folder has the name of a file',
  ENOENT: 'there is no such folder, and none can be made',
  ENAMETOOLONG: 'a name in it is too long',
  ENOSPC: 'the disk is full; make room on it, or name a place on another one',
  EDQUOT: 'this user may keep no more there; make room, or name a place on another disk',
}

/** Of an error about a place that a person named, one that says so; others stay as they are. */
export function asUnwritable(error: unknown, place: string): unknown {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const meaning = Object.hasOwn(meanings, code) ? meanings[code] : undefined
  if (meaning === undefined) return error
  return new UsageError(`${place} cannot be written: ${meaning} (${code}).`, { cause: error })
}

/** With those around it. Node's own way never ends where a folder is there in which none can be made, such as /proc. */
export async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST' && (await stat(path)).isDirectory()) return
    if (code !== 'ENOENT' || dirname(path) === path) throw error
    await makeFolder(dirname(path))
    await mkdir(path)
  }
}
