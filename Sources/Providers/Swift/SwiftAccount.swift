package import Basics
package import HTTP
package import ObjectStorage

/// The containers of an account (OpenStack Object Storage API, containers).
package struct SwiftAccount: BucketDirectory {
    private let store: SwiftStore

    package init(authenticator: any SwiftAuthenticator, engine: HTTPEngine, time: any TimeSource) {
        store = SwiftStore(SwiftStore.Settings(container: ""), authenticator: authenticator, engine: engine, time: time)
    }

    /// Lists the containers without those in which tools keep segments, which are known by their names.
    package func buckets() async throws(ObjectStoreError) -> [BucketEntry] {
        var names: [String] = []
        while true {
            var call = store.call(.listBuckets, .get)
            call.collectLimit = 32 << 20
            call.query = [QueryItem("format", "json")]
            if let last = names.last { call.query.append(QueryItem("marker", last)) }
            let response = try await store.send(call)
            guard let page = SwiftDocuments.containers(response.body) else {
                throw store.malformed(call, response, "the listing is not valid JSON")
            }
            names += page.map(\.name)
            guard page.count >= SwiftStore.leastFullPage else { break }
        }
        let all = Set(names)
        return names.filter { name in
            let owner = ["_segments", "+segments"].first { name.hasSuffix($0) }.map { String(name.dropLast($0.count)) }
            return owner.map { !all.contains($0) } ?? true
        }.map { BucketEntry(name: $0) }
    }
}
