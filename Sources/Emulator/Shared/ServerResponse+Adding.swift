extension ServerResponse {
    func adding(_ fields: [Field]) -> ServerResponse {
        var response = self
        response.headers += fields
        return response
    }
}
