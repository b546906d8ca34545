extension InterceptedStore {
    package func versioning() async throws(ObjectStoreError) -> Versioning {
        try await run(context(.checkAccess)) { () async throws(ObjectStoreError) in try await base.versioning() }
    }

    package func versioning(of key: ObjectKey) async throws(ObjectStoreError) -> Versioning {
        try await run(context(.checkAccess)) { () async throws(ObjectStoreError) in
            try await base.versioning(of: key)
        }
    }

    package func versions(_ request: VersionsRequest) async throws(ObjectStoreError) -> VersionsPage {
        try await run(context(.versions)) { () async throws(ObjectStoreError) in try await base.versions(request) }
    }

    package func head(_ key: ObjectKey, version: String) async throws(ObjectStoreError) -> ObjectInfo {
        try await run(context(.head, key)) { () async throws(ObjectStoreError) in
            try await base.head(key, version: version)
        }
    }

    package func checksums(
        of key: ObjectKey, _ version: ObjectVersion, id: String?
    ) async throws(ObjectStoreError) -> [CheckedPart] {
        try await run(context(.head, key)) { () async throws(ObjectStoreError) in
            try await base.checksums(of: key, version, id: id)
        }
    }

    /// A repeated delete of a version deletes nothing else, except of the version `null`, which a write in between makes anew.
    package func delete(_ key: ObjectKey, version: String) async throws(ObjectStoreError) {
        try await run(context(.deleteVersion, key)) { () async throws(ObjectStoreError) in
            try await base.delete(key, version: version)
        }
    }

    /// A repeated copy makes one more version with the same content.
    package func restoreVersion(_ key: ObjectKey, _ version: String) async throws(ObjectStoreError) -> PutAnswer {
        try await run(context(.copy, key)) { () async throws(ObjectStoreError) in
            try await base.restoreVersion(key, version)
        }
    }
}
