package import Basics

extension InterceptedStore {
    package func accessControl(of key: ObjectKey) async throws(ObjectStoreError) -> AccessControl {
        try await run(context(.accessControl, key)) { () async throws(ObjectStoreError) in
            try await base.accessControl(of: key)
        }
    }

    package func setAccessControl(of key: ObjectKey, to access: AccessControl) async throws(ObjectStoreError) {
        try await run(context(.setAccessControl, key)) { () async throws(ObjectStoreError) in
            try await base.setAccessControl(of: key, to: access)
        }
    }

    package func tags(of key: ObjectKey) async throws(ObjectStoreError) -> [String: String] {
        try await run(context(.tags, key)) { () async throws(ObjectStoreError) in try await base.tags(of: key) }
    }

    package func setTags(of key: ObjectKey, to tags: [String: String]) async throws(ObjectStoreError) {
        try await run(context(.setTags, key)) { () async throws(ObjectStoreError) in
            try await base.setTags(of: key, to: tags)
        }
    }

    package func setStorageClass(
        of key: ObjectKey, to storageClass: String, ifMatch: ETag?
    ) async throws(ObjectStoreError) -> PutAnswer {
        try await run(context(.setStorageClass, key)) { () async throws(ObjectStoreError) in
            try await base.setStorageClass(of: key, to: storageClass, ifMatch: ifMatch)
        }
    }

    package func restore(_ key: ObjectKey, _ request: RestoreRequest) async throws(ObjectStoreError) {
        try await run(context(.restore, key)) { () async throws(ObjectStoreError) in
            try await base.restore(key, request)
        }
    }

    package func move(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer {
        let settle: Settlement<PutAnswer> = { () async throws(ObjectStoreError) in try await moved(request) }
        return try await around.intercept(context(.move, request.key), settle: settle) {
            () async throws(ObjectStoreError) in try await base.move(request)
        }
    }

    package func putSymlink(_ request: PutRequest, target: ByteString) async throws(ObjectStoreError) -> PutAnswer {
        let settle: Settlement<PutAnswer> = { () async throws(ObjectStoreError) in
            let link = try await base.link(at: request.key)
            guard link.target == target else { return nil }
            // A HEAD would tell the version of the object that the link leads to.
            if let etag = link.etag { return PutAnswer(etag: etag) }
            return try await base.listed(request.key).map { PutAnswer($0.version) }
        }
        return try await around.intercept(context(.putSymlink, request.key), settle: settle) {
            () async throws(ObjectStoreError) in try await base.putSymlink(request, target: target)
        }
    }

    package func link(at key: ObjectKey) async throws(ObjectStoreError) -> StoredLink {
        try await run(context(.symlinkTarget, key)) { () async throws(ObjectStoreError) in
            try await base.link(at: key)
        }
    }

    package func usage() async throws(ObjectStoreError) -> BucketUsage {
        try await run(context(.usage)) { () async throws(ObjectStoreError) in try await base.usage() }
    }

    package func changeBucket(_ change: BucketChange) async throws(ObjectStoreError) {
        try await run(context(.changeBucket)) { () async throws(ObjectStoreError) in try await base.changeBucket(change)
        }
    }

    package func preflight(
        _ key: ObjectKey, _ request: PreflightRequest
    ) async throws(ObjectStoreError) -> [PreflightHeader] {
        try await run(context(.preflight, key)) { () async throws(ObjectStoreError) in
            try await base.preflight(key, request)
        }
    }

    package func crossOriginRules(for key: ObjectKey) async throws(ObjectStoreError) -> [CrossOriginRule] {
        try await run(context(.preflight, key)) { () async throws(ObjectStoreError) in
            try await base.crossOriginRules(for: key)
        }
    }

    /// The moved object, when the source's version is at the new key and nothing is at the old one.
    private func moved(_ request: CopyRequest) async throws(ObjectStoreError) -> PutAnswer? {
        guard let meant = request.source.ifMatch else { return nil }
        let version = try await base.head(request.key, condition: nil).version
        guard version.etag == meant else { return nil }
        do { _ = try await base.head(request.source.key, condition: nil) } catch {
            guard error.kind == .notFound else { throw error }
            return PutAnswer(version)
        }
        return nil
    }
}
