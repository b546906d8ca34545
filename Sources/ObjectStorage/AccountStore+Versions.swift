import Basics

/// Versions of objects in buckets of the account. The account itself has none: a listing names a bucket.
extension AccountStore {
    /// Of the bucket that the key or prefix names.
    package func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning {
        guard let place = Place(key.bytes) else { throw Self.bucketsAreFixed(.checkAccess, key) }
        return try await store(of: place.bucket).versioning()
    }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        guard let place = Place(request.prefix) else {
            throw .lacking(.versions, nil, "a listing of the versions in all buckets")
        }
        let own = ByteString(place.bucket + "/")
        var inner = request
        inner.prefix = place.rest
        inner.startAfter = request.startAfter.flatMap { $0.hasPrefix(own) ? $0.dropFirst(own.count) : nil }
        let store = try await store(of: place.bucket)
        do {
            var page = try await store.versions(inner)
            page.versions = page.versions.map { version in
                var version = version
                version.key = ObjectKey(own + version.key.bytes)
                return version
            }
            page.commonPrefixes = page.commonPrefixes.map { ObjectKey(own + $0.bytes) }
            return page
        } catch { throw Self.up(error, place.bucket) }
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await at(key, .head) { store, key throws(ObjectStoreError) in try await store.head(key, version: version) }
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await at(key, .head) { store, key throws(ObjectStoreError) in
            try await store.checksums(of: key, version, id: id)
        }
    }

    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        try await at(key, .deleteVersion) { store, key throws(ObjectStoreError) in
            try await store.delete(key, version: version)
        }
    }

    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        try await at(key, .copy) { store, key throws(ObjectStoreError) in
            try await store.restoreVersion(key, version)
        }
    }
}
