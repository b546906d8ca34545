import Basics
import Blocks
import Commits
import Glibc
import Journaling
import Metadata
import ObjectStorage
import Synchronization

/// Changes of an object's headers. The bytes stay.
///
/// S3 gives an object made of parts another ETag with the headers: if the answer is lost, it would look like another host's
/// object. So each change has a row in the journal until its outcome is known.
extension BucketFileSystem {
    /// Returns the version with the new headers; nil where none was known. Throws `.notPermitted` at stores that have no such
    /// request.
    func updateHeaders(
        _ key: ObjectKey, _ version: ObjectVersion?, _ headers: ObjectMetadata
    ) async throws(FileSystemError) -> ObjectVersion? {
        guard store.capabilities.metadataUpdate != .none else {
            throw FileSystemError(.notPermitted, "this store cannot change the attributes of an object")
        }
        guard AttributeCodec.cost(headers) <= store.capabilities.metadataBudget else {
            throw FileSystemError(
                .argumentTooLong,
                "the attributes exceed the \(store.capabilities.metadataBudget) bytes of metadata that the store keeps")
        }
        guard let version else {
            _ = try await remote { store throws(ObjectStoreError) in
                try await store.updateMetadata(key, to: headers, ifMatch: nil)
            }
            return nil
        }
        let update = HeadersUpdateRecord(source: VersionRecord(key, version), headers: HeadersRecord(headers))
        let row = rooms.journal.newID()
        try journalled { journal throws(JournalingError) in
            try journal.write([.job(row, .headers(update), items: [])], flushed: false)
        }
        let answer: PutAnswer
        do throws(FileSystemError) {
            answer = try await remote { store throws(ObjectStoreError) in
                if let answer = try await putFromCache(key, version, to: key, headers) { return answer }
                return try await store.updateMetadata(key, to: headers, ifMatch: version.etag)
            }
        } catch {
            if error.mayPass || error.kind == .interrupted {
                followLater(update, row, because: error.reason)
                throw error
            }
            // An earlier process may have begun the change, and the store have carried it out late.
            let found = error.kind == .stale ? (try? await jobs.runner.updated(update)) ?? nil : nil
            forgetUpdate(row)
            guard let found = found?.version else { throw error }
            return renew(
                key, version,
                by: PutAnswer(etag: found.etag, versionID: found.versionID, modified: found.modified))
        }
        forgetUpdate(row)
        return renew(key, version, by: answer)
    }

    /// A row that stays costs the next start one request.
    private func forgetUpdate(_ row: IntentID) { try? rooms.journal.write([.endJob(row)], flushed: false) }

    /// The version of an object after a change of its headers. The cached blocks stay, under the new version.
    func renew(_ key: ObjectKey, _ version: ObjectVersion, by answer: PutAnswer) -> ObjectVersion {
        let renewed = ObjectVersion(
            etag: answer.etag, size: version.size, modified: answer.modified ?? time.now(), versionID: answer.versionID)
        rooms.blocks.renew(key, from: version, to: renewed)
        return renewed
    }

    /// Asks the store about a change of unknown outcome until it answers.
    func followLater(_ update: HeadersUpdateRecord, _ row: IntentID, because reason: String) {
        // Without the hold, the new version in an answer of the store would look like another host's.
        let hold = (try? known(update.source.key)).flatMap { $0 }.map { metadata.hold([$0.ino]) }
        jobs.add(row, .headers, update.source.key, because: reason) { [weak self] () async throws(CommitError) in
            guard let self else { throw .cancelled }
            if let info = try await jobs.runner.updated(update) {
                do throws(FileSystemError) { try follow(update, to: info) } catch {
                    throw .store(ObjectStoreError(.local(errno: EIO), .updateMetadata, message: error.reason))
                }
            }
            try await jobs.runner.finish(row, JournalContents.Job(intent: .headers(update), items: []))
            if let hold { metadata.release(hold) }
        }
    }

    /// Gives the entry and its open file the version that this mount's change of headers has made.
    func follow(_ update: HeadersUpdateRecord, to info: ObjectInfo) throws(FileSystemError) {
        let key = ObjectKey(update.source.key)
        rooms.blocks.renew(key, from: update.source.version, to: info.version)
        let known = try known(key.bytes)
        guard let known, known.attributes.version?.etag.text == update.source.etag else { return }
        try adopt(info, as: known.ino)
        guard let file = files.find(known.ino) else { return }
        let (object, attributes) = (rooms.blocks.open(key, info.version), try entry(known.ino).attributes)
        file.state.withLock { state in
            guard state.life.draft == nil, !state.life.isNameless,
                state.life.object?.version.etag.text == update.source.etag
            else { return }
            state.attributes = attributes
            state.life.rebase(on: object)
        }
    }

    /// Sets an entry's version, attributes and headers to those of the object.
    func adopt(_ info: ObjectInfo, as ino: InodeNumber) throws(FileSystemError) {
        var attributes = Attributes(
            kind: .file, size: info.version.size, mtime: info.version.modified, version: info.version,
            storageClass: info.storageClass)
        AttributeCodec.decode(info.metadata, into: &attributes)
        let found = attributes
        try cached { metadata throws(MetadataError) in
            try metadata.update(ino, found, metadata: info.metadata, pending: false)
        }
    }
}
