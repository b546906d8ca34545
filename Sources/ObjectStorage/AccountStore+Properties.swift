package import Basics

/// What objects in buckets of the account have besides their bytes.
extension AccountStore {
    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        try await at(key, .accessControl) { store, key throws(ObjectStoreError) in
            try await store.accessControl(of: key)
        }
    }

    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        try await at(key, .setAccessControl) { store, key throws(ObjectStoreError) in
            try await store.setAccessControl(of: key, to: access)
        }
    }

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        try await at(key, .tags) { store, key throws(ObjectStoreError) in try await store.tags(of: key) }
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        try await at(key, .setTags) { store, key throws(ObjectStoreError) in try await store.setTags(of: key, to: tags)
        }
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await at(key, .setStorageClass) { store, key throws(ObjectStoreError) in
            try await store.setStorageClass(of: key, to: storageClass, ifMatch: ifMatch)
        }
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        try await at(key, .restore) { store, key throws(ObjectStoreError) in try await store.restore(key, request) }
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        let source = try await source(request.source, for: request.key, .move)
        guard source.bucket == nil else { throw .lacking(.move, request.key, "moves from one bucket to another") }
        return try await at(request.key, .move) { store, key throws(ObjectStoreError) in
            try await store.move(request.at(key, from: source))
        }
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        guard let place = Place(target), place.bucket == Place(request.key.bytes)?.bucket else {
            throw ObjectStoreError.lacking(.putSymlink, request.key, "links from one bucket to another")
        }
        return try await at(request.key, .putSymlink) { store, key throws(ObjectStoreError) in
            try await store.putSymlink(request.at(key), target: place.rest)
        }
    }

    package func link(at whole: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        try await at(whole, .symlinkTarget) { store, key throws(ObjectStoreError) in
            var link = try await store.link(at: key)
            if let place = Place(whole.bytes) { link.target = Self.up(link.target, place.bucket) }
            return link
        }
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] {
        try await at(key, .preflight) { store, key throws(ObjectStoreError) in
            try await store.preflight(key, request)
        }
    }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        try await at(key, .preflight) { store, key throws(ObjectStoreError) in
            try await store.crossOriginRules(for: key)
        }
    }
}
