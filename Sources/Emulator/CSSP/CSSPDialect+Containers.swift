import Basics

/// Containers and the account (CSSP API, listings and container ACL). Making containers is the console's; here a request does
/// it.
extension CSSPDialect {
    static let readersProperty = "cssp-x-container-read"
    private static let containerMetadata = "x-container-meta-"
    private static let propertyPrefix = "cssp-"

    func headContainer(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        ServerResponse(status: 204, headers: containerHeaders(try bucket(call.target.container)))
    }

    func containerHeaders(_ bucket: Bucket) -> [Field] {
        let figures = bucket.figures { record in
            record.description.properties.value(of: Self.manifestProperty) == nil ? record.size : 0
        }
        let record = bucket.record
        return [
            Field("X-Container-Object-Count", String(figures.objects)),
            Field("X-Container-Bytes-Used", String(figures.bytes)),
            Field("X-Timestamp", Self.timestamp(record.created)),
            Field("X-Storage-Policy", "Policy-0"), Field("Accept-Ranges", "bytes"),
        ]
            + record.properties.filter { $0.name.hasPrefix(Self.propertyPrefix) }.map { property in
                Field(Self.capitalized(String(property.name.dropFirst(Self.propertyPrefix.count))), property.value)
            }
    }

    func createContainer(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        let name = call.target.container
        guard ObjectLibrary.isBucketName(name) else { throw .plain(400, "Container name not allowed here: \(name)") }
        if library.hasBucket(name) {
            try change(name, call.request)
            return CSSPError(202).response
        }
        try CSSPError.storing { () throws(StorageError) in
            try library.createBucket(name, region: options.region, now: options.time.now())
        }
        try change(name, call.request)
        return ServerResponse(status: 201)
    }

    /// Only what is named changes; an empty value removes (OpenStack Object Storage API, objects).
    func setContainerMetadata(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        try change(call.target.container, call.request)
        return ServerResponse(status: 204)
    }

    private func change(_ name: String, _ request: ServerRequest) throws(CSSPError) {
        let bucket = try bucket(name)
        var changes: [Field] = []
        for (header, value) in request.headers {
            let header = header.lowercased()
            let isRemoval = header.hasPrefix("x-remove-container-")
            let stored = isRemoval ? "x-" + header.dropFirst("x-remove-".count) : header
            guard stored.hasPrefix(Self.containerMetadata) || stored == "x-container-read" else { continue }
            changes.append(Field(Self.propertyPrefix + stored, isRemoval ? "" : value))
        }
        guard !changes.isEmpty else { return }
        let (names, kept) = (Set(changes.map(\.name)), changes.filter { !$0.value.isEmpty })
        try CSSPError.storing { () throws(StorageError) in
            try bucket.setProperties { $0.filter { !names.contains($0.name) } + kept }
        }
    }

    func deleteContainer(_ call: CSSPCall) throws(CSSPError) -> ServerResponse {
        try CSSPError.storing { () throws(StorageError) in try library.deleteBucket(call.target.container) }
        return ServerResponse(status: 204)
    }
}
